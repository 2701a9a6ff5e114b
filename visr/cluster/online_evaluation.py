"""The driver's side of the online evaluation, a worker like the actors."""

from __future__ import annotations

from typing import Any

from visr.cluster.supervisor import Supervisor, remote_class
from visr.cluster.workers import OnlineEvaluationWorker, Weights
from visr.config import RunConfig


class RemoteOnlineEvaluation:
    """Plays unrolls with rewards on request; a replacement starts without the rewards seen before."""

    def __init__(self, config: RunConfig) -> None:
        host, cluster = remote_class(OnlineEvaluationWorker), config.cluster
        resources = {"num_cpus": cluster.cpus_per_actor, "num_gpus": cluster.gpus_per_actor}
        self.supervisor = Supervisor(
            "The rewarded actor",
            lambda _: host.options(**resources).remote(config),
            cluster.unroll_timeout,
        )
        training = config.training
        self._num_actor_envs = training.num_envs - training.num_rewarded_envs
        self._length, self._num_unrolls = training.unroll_length, 0

    @property
    def pending(self) -> list[Any]:
        """References to wait for."""
        return [] if self.supervisor.pending is None else [self.supervisor.pending]

    @property
    def is_acting(self) -> bool:
        """Whether an unroll is being played."""
        return self.supervisor.is_ready and self.supervisor.pending is not None

    def is_behind(self, num_steps: int) -> bool:
        """Whether it has played fewer steps per environment than the actors."""
        return self._num_unrolls * self._num_actor_envs * self._length <= num_steps

    def begin(self, weights: Weights) -> None:
        """Play one unroll with these weights, if the worker is free."""
        if self.supervisor.is_free:
            self.supervisor.await_result(
                self.supervisor.handle.play.remote(weights.psi, weights.others), None
            )
            self._num_unrolls += 1

    def receive(self, ready: set[Any]) -> None:
        """Receive a finished unroll; replace the worker if it failed or hangs."""
        if self.supervisor.pending in ready:
            self.supervisor.receive()
        else:
            self.supervisor.check_timeout()

    def row(self) -> dict[str, float]:
        """Statistics since the last row; empty while the worker is not ready."""
        return (
            (self.supervisor.call(lambda a: a.row.remote()) or {})
            if self.supervisor.is_ready
            else {}
        )

    def restart(self, num_steps: int) -> None:
        """Reset environments whose state cannot be saved."""
        if self.supervisor.is_free:
            self.supervisor.call(lambda a: a.restart.remote(num_steps))

    def state(self) -> dict[str, Any]:
        """Everything that deterowns later play, given weights; empty while the worker is not ready."""
        return (
            (self.supervisor.call(lambda a: a.state.remote()) or {})
            if self.supervisor.is_ready
            else {}
        )

    def load_state(self, state: dict[str, Any], num_steps: int) -> None:
        """The inverse of `state`; without a state the worker keeps its own."""
        own = {k: v for k, v in state.items() if k.startswith("online.")}
        if own and self.supervisor.is_ready:
            self.supervisor.call(lambda a: a.load_state.remote(own, num_steps))

    def close(self) -> None:
        """Stop the worker."""
        self.supervisor.stop()
