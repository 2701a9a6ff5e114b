"""The driver's view of the actors: who is there, who acts with which weights, what has arrived."""

from __future__ import annotations

from functools import partial
from typing import Any

from visr.cluster.queue import Waiting
from visr.cluster.stats import Vitals
from visr.cluster.supervisor import Seat, hosted
from visr.cluster.workers import ActorHost, Weights
from visr.config import RunConfig
from visr.ops.rng import derived
from visr.training.actor_pool import group_seeds, group_sizes


class Actors:
    """A seat for every group of environments. Unrolls stay in the object store; only reports come here."""

    def __init__(self, config: RunConfig, vitals: Vitals) -> None:
        self._config, self._vitals = config, vitals
        self._sizes, self._seeds = group_sizes(config), group_seeds(config)
        self._age, self._era = 0, 0
        self._host = hosted(ActorHost)
        timeout = config.cluster.unroll_timeout
        self.seats = [
            Seat(f"Actor {group}", partial(self._spawn, group), timeout)
            for group in range(len(self._sizes))
        ]

    def _spawn(self, group: int, generation: int) -> Any:
        cluster = self._config.cluster
        resources = {"num_cpus": cluster.cpus_per_actor, "num_gpus": cluster.gpus_per_actor}
        seed = self._seeds[group]
        if generation or self._age:  # who comes later draws other tasks than who began
            seed = derived(self._config.training.seed, 3, group, generation, self._age)
        return self._host.options(**resources).remote(self._config, group, seed)

    def start_anew(self, num_steps: int) -> None:
        """What is under way belongs to weights that are no more; new occupants will be of this age."""
        self._age, self._era = num_steps, self._era + 1

    @property
    def remember(self) -> bool:
        """Whether all environments can be saved and put back."""
        return all(seat.answer for seat in self.seats)

    @property
    def num_ready(self) -> int:
        """Actors that are there."""
        return sum(seat.is_ready for seat in self.seats)

    @property
    def num_replaced(self) -> int:
        """Actors that had to be replaced so far."""
        return sum(seat.generation for seat in self.seats)

    @property
    def num_acting(self) -> int:
        """Unrolls under way."""
        busy = (g for g, s in enumerate(self.seats) if s.is_ready and s.pending is not None)
        return sum(self._sizes[group] for group in busy)

    @property
    def pending(self) -> list[Any]:
        """References to await."""
        return [seat.pending for seat in self.seats if seat.pending is not None]

    def begin(self, weights: Weights, wanted: int, room: int) -> None:
        """Let free actors act with these weights, while unrolls are wanted and there is room for them."""
        acting = self.num_acting
        for group, seat in enumerate(self.seats):
            if seat.is_free and acting < wanted and acting + self._sizes[group] <= room:
                acting += self._sizes[group]
                unrolls, report = seat.handle.collect.options(num_returns=2).remote(weights.psi)
                order = (self._era, Waiting(unrolls, self._sizes[group], weights.version))
                seat.give(report, order)

    def attend(self, ready: set[Any]) -> list[tuple[int, Waiting]]:
        """Take note of what is there, by group; replace who failed or hangs."""
        arrived: list[tuple[int, Waiting]] = []
        for group, seat in enumerate(self.seats):
            if seat.pending in ready:
                order, report = seat.order, seat.attend()
                if report is not None:
                    era, waiting = order
                    self._vitals.acted(report, waiting.size)
                    if era == self._era:
                        arrived.append((group, waiting))
            else:
                seat.watch()
        return arrived

    def state(self) -> dict[str, Any]:
        """What every actor would need to go on; of one that fails to say, nothing."""
        parts = [seat.ask(lambda a: a.state.remote()) for seat in self.seats if seat.is_free]
        return {k: v for part in parts if part for k, v in part.items()}

    def load_state(self, state: dict[str, Any], num_steps: int) -> None:
        """Put back every actor that the state knows; others begin new episodes."""
        for group, seat in enumerate(self.seats):
            mine = {k: v for k, v in state.items() if k.startswith(f"actor{group}.")}
            if mine and seat.is_free:
                seat.ask(lambda a, mine=mine: a.load_state.remote(mine, num_steps))

    def restart(self, num_steps: int) -> None:
        """Begin new episodes in environments that cannot be saved."""
        for seat in self.seats:
            if seat.is_free:
                seat.ask(lambda a: a.restart.remote(num_steps))

    def close(self) -> None:
        """Let all of them go."""
        for seat in self.seats:
            seat.leave()
