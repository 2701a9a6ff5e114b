"""The driver's side of the actors: start them, send weights, receive unrolls."""

from __future__ import annotations

from functools import partial
from typing import Any

from visr.cluster.queue import QueuedUnrolls
from visr.cluster.stats import ClusterStats
from visr.cluster.supervisor import Supervisor, remote_class
from visr.cluster.workers import ActorWorker, Weights
from visr.config import RunConfig
from visr.ops import derived_seed
from visr.training.actor_pool import group_seeds, group_sizes


class RemoteActors:
    """A supervisor for every group of environments. Unrolls stay in the object store."""

    def __init__(self, config: RunConfig, stats: ClusterStats) -> None:
        self._config, self._stats = config, stats
        self._sizes, self._seeds = group_sizes(config), group_seeds(config)
        self._num_steps, self._era = 0, 0
        self._host = remote_class(ActorWorker)
        timeout = config.cluster.unroll_timeout
        self.supervisors = [
            Supervisor(f"Actor {group}", partial(self._spawn, group), timeout)
            for group in range(len(self._sizes))
        ]

    def _spawn(self, group: int, generation: int) -> Any:
        cluster = self._config.cluster
        resources = {"num_cpus": cluster.cpus_per_actor, "num_gpus": cluster.gpus_per_actor}
        seed = self._seeds[group]
        if generation or self._num_steps:  # a replacement draws other tasks than the first actor
            seed = derived_seed(self._config.training.seed, 3, group, generation, self._num_steps)
        return self._host.options(**resources).remote(self._config, group, seed)

    def reset(self, num_steps: int) -> None:
        """Discard unrolls under way; later replacements are seeded with this number of steps."""
        self._num_steps, self._era = num_steps, self._era + 1

    @property
    def remember(self) -> bool:
        """Whether a checkpoint can contain the state of all environments."""
        return all(supervisor.prepared for supervisor in self.supervisors)

    @property
    def num_ready(self) -> int:
        """Actors that are prepared."""
        return sum(supervisor.is_ready for supervisor in self.supervisors)

    @property
    def num_replaced(self) -> int:
        """Replacements so far."""
        return sum(supervisor.generation for supervisor in self.supervisors)

    @property
    def num_acting(self) -> int:
        """Unrolls that are being collected."""
        busy = (g for g, s in enumerate(self.supervisors) if s.is_ready and s.pending is not None)
        return sum(self._sizes[group] for group in busy)

    @property
    def pending(self) -> list[Any]:
        """References to wait for."""
        return [
            supervisor.pending for supervisor in self.supervisors if supervisor.pending is not None
        ]

    def begin(self, weights: Weights, wanted: int, room: int) -> None:
        """Start free actors with these weights, up to `wanted` unrolls and `room` in the queue."""
        acting = self.num_acting
        for group, supervisor in enumerate(self.supervisors):
            if supervisor.is_free and acting < wanted and acting + self._sizes[group] <= room:
                acting += self._sizes[group]
                unrolls, report = supervisor.handle.collect.options(num_returns=2).remote(
                    weights.psi
                )
                request = (self._era, QueuedUnrolls(unrolls, self._sizes[group], weights.version))
                supervisor.await_result(report, request)

    def receive(self, ready: set[Any]) -> list[tuple[int, QueuedUnrolls]]:
        """Receive finished unrolls, with their group; replace actors that failed or hang."""
        arrived: list[tuple[int, QueuedUnrolls]] = []
        for group, supervisor in enumerate(self.supervisors):
            if supervisor.pending in ready:
                request, report = supervisor.request, supervisor.receive()
                if report is not None:
                    era, waiting = request
                    self._stats.add_acting(report, waiting.size)
                    if era == self._era:
                        arrived.append((group, waiting))
            else:
                supervisor.check_timeout()
        return arrived

    def state(self) -> dict[str, Any]:
        """The state of every free actor; one that fails is left out."""
        parts = [
            supervisor.call(lambda a: a.state.remote())
            for supervisor in self.supervisors
            if supervisor.is_free
        ]
        return {k: v for part in parts if part for k, v in part.items()}

    def load_state(self, state: dict[str, Any], num_steps: int) -> None:
        """Restore the actors that the state contains; the others start new episodes."""
        for group, supervisor in enumerate(self.supervisors):
            own = {k: v for k, v in state.items() if k.startswith(f"actor{group}.")}
            if own and supervisor.is_free:
                supervisor.call(lambda a, own=own: a.load_state.remote(own, num_steps))

    def restart(self, num_steps: int) -> None:
        """Reset environments whose state cannot be saved."""
        for supervisor in self.supervisors:
            if supervisor.is_free:
                supervisor.call(lambda a: a.restart.remote(num_steps))

    def close(self) -> None:
        """Stop all actors."""
        for supervisor in self.supervisors:
            supervisor.stop()
