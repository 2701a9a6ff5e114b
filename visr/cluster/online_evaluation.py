"""The driver's view of the online evaluation's environments, which sit in the cluster like actors."""

from __future__ import annotations

from typing import Any

from visr.cluster.supervisor import Seat, hosted
from visr.cluster.workers import RewardedHost, Weights
from visr.config import RunConfig


class RewardedSeat:
    """Plays when it is told to; whoever replaces it begins with no memory of rewards."""

    def __init__(self, config: RunConfig) -> None:
        host, cluster = hosted(RewardedHost), config.cluster
        resources = {"num_cpus": cluster.cpus_per_actor, "num_gpus": cluster.gpus_per_actor}
        self.seat = Seat(
            "The rewarded actor",
            lambda _: host.options(**resources).remote(config),
            cluster.unroll_timeout,
        )
        training = config.training
        self._others = training.num_envs - training.num_rewarded_envs
        self._length, self._num_unrolls = training.unroll_length, 0

    @property
    def pending(self) -> list[Any]:
        """References to await."""
        return [] if self.seat.pending is None else [self.seat.pending]

    @property
    def is_acting(self) -> bool:
        """Whether it plays just now."""
        return self.seat.is_ready and self.seat.pending is not None

    def is_behind(self, num_steps: int) -> bool:
        """Whether it has played less than the others have, environment by environment."""
        return self._num_unrolls * self._others * self._length <= num_steps

    def begin(self, weights: Weights) -> None:
        """Play one unroll with these weights, if it is free."""
        if self.seat.is_free:
            self.seat.give(self.seat.handle.play.remote(weights.psi, weights.others), None)
            self._num_unrolls += 1

    def attend(self, ready: set[Any]) -> None:
        """Take note of what is there; replace who failed or hangs."""
        if self.seat.pending in ready:
            self.seat.attend()
        else:
            self.seat.watch()

    def row(self) -> dict[str, float]:
        """What happened since the last row; nothing while nobody sits there."""
        return (self.seat.ask(lambda a: a.row.remote()) or {}) if self.seat.is_ready else {}

    def restart(self, num_steps: int) -> None:
        """Begin new games where they cannot be saved."""
        if self.seat.is_free:
            self.seat.ask(lambda a: a.restart.remote(num_steps))

    def state(self) -> dict[str, Any]:
        """All that determines what comes next, given weights; nothing while nobody sits there."""
        return (self.seat.ask(lambda a: a.state.remote()) or {}) if self.seat.is_ready else {}

    def load_state(self, state: dict[str, Any], num_steps: int) -> None:
        """The inverse of `state`; without one it begins anew."""
        mine = {k: v for k, v in state.items() if k.startswith("online.")}
        if mine and self.seat.is_ready:
            self.seat.ask(lambda a: a.load_state.remote(mine, num_steps))

    def close(self) -> None:
        """Let it go."""
        self.seat.leave()
