"""The driver's side of the learner, or of several that split every batch; if one is lost, all restart."""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError

from visr.cluster.supervisor import is_lost_object, reason, remote_class
from visr.cluster.workers import LearnerWorker, Weights
from visr.config import RunConfig
from visr.errors import UserError
from visr.training.driver import LostProgress


class RemoteLearners:
    """All learners hold equal weights, so their state is read from the first one."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._host = remote_class(LearnerWorker)
        self.handles: list[Any] = []
        self.pids: list[int] = []
        self.pending: list[Any] = []
        """References to every learner's report, while they learn."""
        self._published: tuple[Any, Any] | None = None
        self.are_running = False
        """Whether the learners are prepared and not stopped."""

    def spawn(self) -> list[Any]:
        """Start the processes; returns references to their ids, to wait for before `prepare`."""
        cluster = self._config.cluster
        resources = {"num_cpus": cluster.cpus_per_learner, "num_gpus": cluster.gpus_per_learner}
        self.handles = [
            self._host.options(**resources).remote(self._config, rank)
            for rank in range(cluster.num_learners)
        ]
        self.pending, self.are_running = [], False
        return [handle.process_id.remote() for handle in self.handles]

    def prepare(self, pids: list[Any]) -> None:
        """Build agents and learners; several connect to the first one."""
        self.pids = self.get(pids)
        several = len(self.handles) > 1
        address = self.get([self.handles[0].address.remote()])[0] if several else None
        self.get([handle.prepare.remote(address) for handle in self.handles])
        self.are_running = True

    def publish(self, version: int) -> Weights:
        """References to the current weights."""
        psi, others = self.handles[0].publish.options(num_returns=2).remote()
        return Weights(psi, others, version)

    def learn(self, unrolls: list[Any]) -> None:
        """Start learning: every learner receives all references and takes its part of every batch."""
        calls = [h.learn.options(num_returns=3).remote(*unrolls) for h in self.handles]
        self.pending = [report for _, _, report in calls]
        self._published = calls[0][:2]

    def is_finished(self, ready: set[Any]) -> bool:
        """Whether all learners are done, or one has failed and the others would wait for it."""
        return bool(self.pending) and (
            ready.issuperset(self.pending)
            or any(_error(r) for r in ready.intersection(self.pending))
        )

    def result(self) -> tuple[dict[str, Any], tuple[Any, Any]] | None:
        """The first one's report, and references to the new weights; None if unrolls were lost.

        A learner that receives a lost unroll does not start, so a single learner can take others instead.
        """
        pending, self.pending = self.pending, []
        published, self._published = self._published, None
        assert published is not None
        if len(pending) == 1 and (error := _error(pending[0])) and is_lost_object(error):
            return None
        return self.get(pending)[0], published

    def state(self, unrolls: list[Any]) -> dict[str, Any]:
        """The learner's complete state, these unrolls included."""
        return self.get([self.handles[0].state.remote(*unrolls)])[0]

    def load_state(self, state: dict[str, Any], num_updates: int) -> None:
        """The inverse of `state`, on every learner."""
        kept = ray.put(state)
        self.get([h.load_state.remote(kept, num_updates) for h in self.handles])

    def close(self) -> None:
        """Stop all learners."""
        for handle in self.handles:
            ray.kill(handle)
        self.handles, self.pending, self.are_running = [], [], False

    def get(self, references: list[Any]) -> list[Any]:
        """The results; if one learner is lost, stop all, because the others would wait for it."""
        try:
            return ray.get(references)
        except (RayActorError, ObjectLostError) as error:
            self.close()
            raise LostProgress("The learner's process or its node has gone.") from error
        except RayTaskError as error:
            why, several = reason(error), len(self.handles) > 1
            self.close()
            if several and isinstance(error, RuntimeError):  # what torch.distributed raises
                raise LostProgress(f"The learners have lost each other ({why}).") from error
            raise UserError(f"The learner failed ({why}); the last checkpoint is kept.") from error


def _error(reference: Any) -> Exception | None:
    """The error that came instead of a result."""
    try:
        ray.get(reference)
    except (RayActorError, RayTaskError, ObjectLostError) as error:
        return error
    return None
