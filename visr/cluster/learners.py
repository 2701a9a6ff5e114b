"""The driver's view of the learner, or of several that share every batch and live and die together."""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError

from visr.cluster.supervisor import hosted, is_loss, reason
from visr.cluster.workers import LearnerHost, Weights
from visr.config import RunConfig
from visr.errors import UserError
from visr.training.loop import Setback


class Learners:
    """The first of them speaks for all: its weights are everybody's."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._host = hosted(LearnerHost)
        self.handles: list[Any] = []
        self.pids: list[int] = []
        self.pending: list[Any] = []
        """What is awaited: a report of every learner, while they learn."""
        self._published: tuple[Any, Any] | None = None
        self._is_prepared = False

    def spawn(self) -> list[Any]:
        """Begin their processes; references to await before `prepare`."""
        cluster = self._config.cluster
        resources = {"num_cpus": cluster.cpus_per_learner, "num_gpus": cluster.gpus_per_learner}
        self.handles = [
            self._host.options(**resources).remote(self._config, rank)
            for rank in range(cluster.num_learners)
        ]
        self.pending, self._is_prepared = [], False
        return [handle.hello.remote() for handle in self.handles]

    def prepare(self, hellos: list[Any]) -> None:
        """Build what they need; several agree on where to meet."""
        self.pids = self._get(hellos)
        several = len(self.handles) > 1
        place = self._get([self.handles[0].address.remote()])[0] if several else None
        self._get([handle.prepare.remote(place) for handle in self.handles])
        self._is_prepared = True

    @property
    def are_there(self) -> bool:
        """Whether they were prepared and have not been let go since."""
        return self._is_prepared

    def publish(self, version: int) -> Weights:
        """References to the weights as they are."""
        psi, others = self.handles[0].publish.options(num_returns=2).remote()
        return Weights(psi, others, version)

    def learn(self, unrolls: list[Any]) -> None:
        """Set off: every learner is handed all references, and takes its part of every batch."""
        calls = [h.learn.options(num_returns=3).remote(*unrolls) for h in self.handles]
        self.pending = [report for _, _, report in calls]
        self._published = calls[0][:2]

    def is_finished(self, ready: set[Any]) -> bool:
        """Whether all of them have, or any has failed, which the others would wait for."""
        return bool(self.pending) and (
            ready.issuperset(self.pending) or any(_error(r) for r in ready & {*self.pending})
        )

    def result(self) -> tuple[dict[str, Any], tuple[Any, Any]] | None:
        """The first one's report, and references to the new weights; None if unrolls were lost on the way.

        A learner that was handed a lost unroll has not begun, so a single one can simply be given others.
        """
        pending, self.pending = self.pending, []
        published, self._published = self._published, None
        assert published is not None
        if len(pending) == 1 and _is_lost(pending[0]):
            return None
        return self._get(pending)[0], published

    def fetch(self, references: list[Any]) -> list[Any]:
        """What these refer to; if it has gone, so has the learner that made it."""
        return self._get(references)

    def state(self, unrolls: list[Any]) -> dict[str, Any]:
        """All of learning, these unrolls included."""
        return self._get([self.handles[0].state.remote(*unrolls)])[0]

    def load_state(self, state: dict[str, Any], num_updates: int) -> None:
        """The inverse of `state`, for each of them."""
        kept = ray.put(state)
        self._get([h.load_state.remote(kept, num_updates) for h in self.handles])

    def close(self) -> None:
        """Let them go."""
        for handle in self.handles:
            ray.kill(handle)
        self.handles, self.pending, self._is_prepared = [], [], False

    def _get(self, references: list[Any]) -> list[Any]:
        """Their answers; a learner that has gone takes the others with it, for they would wait for it."""
        try:
            return ray.get(references)
        except (RayActorError, ObjectLostError) as error:
            self.close()
            raise Setback("The learner's process or its node has gone.") from error
        except RayTaskError as error:
            why, several = reason(error), len(self.handles) > 1
            self.close()
            if several and isinstance(error, RuntimeError):  # what torch.distributed raises
                raise Setback(f"The learners have lost each other ({why}).") from error
            raise UserError(f"The learner failed ({why}); the last checkpoint is kept.") from error


def _error(reference: Any) -> Exception | None:
    """What came instead of an answer."""
    try:
        ray.get(reference)
    except (RayActorError, RayTaskError, ObjectLostError) as error:
        return error
    return None


def _is_lost(reference: Any) -> bool:
    error = _error(reference)
    return error is not None and is_loss(error)
