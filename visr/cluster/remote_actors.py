"""The driver's side of the actors and of the online evaluation: send weights, receive unrolls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from numpy.typing import NDArray

from visr.cluster.queue import ClusterStats, QueuedUnrolls
from visr.cluster.supervisor import Supervisor, remote_class
from visr.cluster.workers import ActorWorker, OnlineEvaluationWorker, Weights
from visr.config import RunConfig
from visr.ops import derived_seed
from visr.training.actor_pool import group_seeds, group_sizes

_NO_LIMIT = 2**62


class RemoteActors:
    """A supervisor for every group of environments, and one for the online evaluation if the run has one.

    Unrolls stay in the object store. A new worker for the online evaluation starts without earlier rewards.
    """

    def __init__(self, config: RunConfig, stats: ClusterStats) -> None:
        self._config, self._stats = config, stats
        self._sizes, self._seeds = group_sizes(config), group_seeds(config)
        self._num_steps, self._num_restarts, self._num_online = 0, 0, 0
        cluster, timeout = config.cluster, config.cluster.unroll_timeout
        resources = {"num_cpus": cluster.cpus_per_actor, "num_gpus": cluster.gpus_per_actor}
        actor = remote_class(ActorWorker).options(**resources)
        self.supervisors = [
            Supervisor(f"Actor {group}", partial(self._spawn, actor, group), timeout)
            for group in range(len(self._sizes))
        ]
        self._online: Supervisor | None = None
        if config.training.num_rewarded_envs:
            online = remote_class(OnlineEvaluationWorker).options(**resources)
            self._online = Supervisor(
                "The rewarded actor", lambda _: online.remote(config), timeout
            )
        self._by_prefix = {f"actor{group}.": s for group, s in enumerate(self.supervisors)}
        """Every supervisor, by the prefix of its tensors in a checkpoint."""
        if self._online:
            self._by_prefix["online."] = self._online

    def _spawn(self, actor: Any, group: int, generation: int) -> Any:
        seed = self._seeds[group]
        if generation or self._num_steps:  # a replacement draws other tasks than the first actor
            words = (self._config.training.seed, 3, group, generation, self._num_steps)
            seed = derived_seed(*words)
        return actor.remote(self._config, group, seed)

    def reset(self, num_steps: int) -> None:
        """Discard unrolls under way; later replacements are seeded with this number of steps."""
        self._num_steps, self._num_restarts = num_steps, self._num_restarts + 1

    @property
    def num_ready(self) -> int:
        """Actors that are prepared."""
        return sum(supervisor.is_ready for supervisor in self.supervisors)

    @property
    def num_missing(self) -> int:
        """Workers that are not prepared."""
        return sum(not supervisor.is_ready for supervisor in self._by_prefix.values())

    @property
    def num_workers(self) -> int:
        """All workers, the online evaluation included."""
        return len(self._by_prefix)

    @property
    def num_replaced(self) -> int:
        """Replacements of actors so far."""
        return sum(supervisor.generation for supervisor in self.supervisors)

    @property
    def are_acting(self) -> bool:
        """Whether an unroll is being collected."""
        return any(supervisor.is_busy for supervisor in self._by_prefix.values())

    @property
    def pending(self) -> list[Any]:
        """References to wait for."""
        pending = (supervisor.pending for supervisor in self._by_prefix.values())
        return [reference for reference in pending if reference is not None]

    def begin(
        self,
        weights: Weights,
        wanted: int = _NO_LIMIT,
        capacity: int = _NO_LIMIT,
        num_steps: int = _NO_LIMIT,
        pursuits: Mapping[int, list[NDArray]] | None = None,
    ) -> None:
        """Start free actors with these weights, up to `wanted` unrolls and the `capacity` of the queue.

        With `pursuits`, which are the replay learner's, only the groups that it names.
        The online evaluation starts unless it has made more steps per environment than `num_steps` imply.
        """
        sized = list(zip(self.supervisors, self._sizes, strict=True))
        acting = sum(size for supervisor, size in sized if supervisor.is_busy)
        for group, (supervisor, size) in enumerate(sized):
            if pursuits is not None and group not in pursuits:
                continue
            if supervisor.is_free and acting < wanted and acting + size <= capacity:
                acting += size
                unrolls, report = supervisor.handle.collect.options(num_returns=2).remote(
                    weights.psi, pursuits and pursuits[group]
                )
                request = (self._num_restarts, QueuedUnrolls(unrolls, size, weights.version))
                supervisor.await_result(report, request)
        steps_per_unroll = sum(self._sizes) * self._config.training.unroll_length
        if (
            self._online
            and self._online.is_free
            and self._num_online * steps_per_unroll <= num_steps
        ):
            self._online.await_result(self._online.handle.play.remote(weights.psi, weights.others))
            self._num_online += 1

    def receive(self, ready: set[Any]) -> list[tuple[int, QueuedUnrolls]]:
        """Receive finished unrolls, with their group; replace workers that failed or hang."""
        arrived: list[tuple[int, QueuedUnrolls]] = []
        for group, supervisor in enumerate(self.supervisors):
            request, report = supervisor.request, supervisor.receive(ready)
            if report is not None:
                num_restarts, unrolls = request
                self._stats.add_acting(report, unrolls.size)
                if num_restarts == self._num_restarts:
                    arrived.append((group, unrolls))
        if self._online:
            self._online.receive(ready)
        return arrived

    def online_row(self) -> dict[str, float]:
        """Results of the online evaluation since the last row; empty while its worker is not ready."""
        if self._online is None or not self._online.is_ready:
            return {}
        return self._online.call(lambda worker: worker.row.remote()) or {}

    def state(self, *, with_groups: bool) -> dict[str, Any]:
        """The state of the online evaluation and, if asked, of all groups; failed workers are left out."""
        state: dict[str, Any] = {}
        for supervisor in self._by_prefix.values():
            if supervisor.is_ready and (with_groups or supervisor is self._online):
                state |= supervisor.call(lambda worker: worker.state.remote()) or {}
        return state

    def load_state(self, state: dict[str, Any], num_steps: int) -> None:
        """Restore the workers that the state contains; the others keep theirs."""
        for prefix, supervisor in self._by_prefix.items():
            own = {k: v for k, v in state.items() if k.startswith(prefix)}
            if own and supervisor.is_ready:
                supervisor.call(lambda worker, own=own: worker.load_state.remote(own, num_steps))

    def reset_unsaveable_envs(self, num_steps: int) -> None:
        """Reset environments whose state cannot be saved."""
        for supervisor in self._by_prefix.values():
            if supervisor.is_ready:
                supervisor.call(lambda worker: worker.reset_unsaveable_envs.remote(num_steps))

    def close(self) -> None:
        for supervisor in self._by_prefix.values():
            supervisor.stop()
