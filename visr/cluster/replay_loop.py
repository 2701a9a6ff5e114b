"""The replay learner on a cluster: remote actors, and the learner in the driver."""

from __future__ import annotations

import time
from typing import Any

import ray
from ray.exceptions import ObjectLostError
from torch import Tensor

from visr import terminal
from visr.cluster.queue import ClusterStats
from visr.cluster.remote_actors import RemoteActors
from visr.cluster.supervisor import wait_for, wait_for_any
from visr.cluster.workers import Weights, arrays, shared_tensors, tensors
from visr.config import RunConfig
from visr.networks.successor import SuccessorFeatures
from visr.training.actor_pool import parts_of
from visr.training.replay_loop import ReplayLoop
from visr.types import Pursuit, Unroll

log = terminal.logger("visr.cluster")

_TICK = 1.0
"""Longest time in seconds between two checks of the workers."""


class RemoteActorPool:
    """All actors, each in a Ray process; a replacement collects the unroll that was lost."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._stats = ClusterStats(config.training.unroll_length)
        self._actors = RemoteActors(config, self._stats)
        self._weights: Weights | None = None
        self._parts: list[Any] = []
        self._began = 0.0
        try:
            self._wait_for_all()
        except BaseException:
            self.close()
            raise

    def begin(self, psi: SuccessorFeatures, pursuit: Pursuit | None = None) -> None:
        """Send the weights; the actors collect while the learner works here."""
        parts = parts_of(self._config, pursuit)
        self._parts = [[x.numpy().copy() for x in part or ()] for part in parts]
        self._weights = Weights(ray.put(arrays(dict(psi.state_dict()))), None, 0)
        self._actors.begin(self._weights, pursuits=dict(enumerate(self._parts)))
        self._began = time.perf_counter()

    def collect(self) -> list[Unroll]:
        """One unroll of every group, however many actors die meanwhile."""
        assert self._weights is not None
        waits = time.perf_counter()
        arrived: dict[int, Unroll] = {}
        while len(arrived) < len(self._parts):
            missing = {g: x for g, x in enumerate(self._parts) if g not in arrived}
            self._actors.begin(self._weights, pursuits=missing)
            for group, queued in self._actors.receive(wait_for_any(self._actors.pending, _TICK)):
                try:
                    arrived[group] = Unroll(*shared_tensors(ray.get(queued.unrolls)))
                except ObjectLostError as error:  # with its node: collect it again
                    log.warning("An unroll of actor %d is lost (%s).", group, type(error).__name__)
        report = {"learnt": waits - self._began, "waited": time.perf_counter() - waits}
        self._stats.add_learning(report, [(0, self._config.training.num_envs)])
        return [arrived[group] for group in sorted(arrived)]

    def reset_unsaveable_envs(self, num_steps: int) -> None:
        self._wait_for_all()
        self._actors.reset_unsaveable_envs(num_steps)

    def state(self) -> dict[str, Tensor]:
        """The state of every group; a worker that dies meanwhile is replaced and asked again."""
        while True:
            self._wait_for_all()
            state = self._actors.state(with_groups=True)
            if not self._actors.num_missing:
                return tensors(state)

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        self._actors.reset(num_steps)
        self._wait_for_all()
        self._actors.load_state(arrays(tensors), num_steps)

    def close(self) -> None:
        self._actors.close()

    def row(self) -> dict[str, float]:
        """Statistics since the last call."""
        actors = self._actors
        now = {"actors": actors.num_ready, "queue": 0, "actors_replaced": actors.num_replaced}
        return self._stats.row({k: float(v) for k, v in now.items()} | {"unrolls_dropped": 0.0})

    def _wait_for_all(self) -> None:
        """Until every actor is prepared."""

        def missing() -> str:
            self._actors.receive(wait_for_any(self._actors.pending, _TICK))
            count = self._actors.num_missing
            return f"{count} of {self._actors.num_workers} actors" if count else ""

        if self._actors.num_missing:
            wait_for(missing)


class ClusterReplayLoop(ReplayLoop):
    """The loop of one machine with remote actors: the same results, bit for bit, if none dies."""

    def __init__(self, config: RunConfig) -> None:
        self._pool = RemoteActorPool(config)
        super().__init__(config, pools=[self._pool])

    def extra_rows(self) -> dict[str, dict[str, float]]:
        """Cluster statistics since the last call."""
        return {"cluster": self._pool.row()}
