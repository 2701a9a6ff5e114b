"""Run many jobs on a cluster, each as a Ray task; results come in order of completion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import ray
from ray.exceptions import RayError, RayTaskError

from visr.cluster.supervisor import wait_for_any

Job = TypeVar("Job")
Result = TypeVar("Result")

_TICK = 5.0


class Outcome(NamedTuple, Generic[Job, Result]):
    """The result of a job, or why it failed."""

    job: Job
    result: Result | None
    """What it returned; None if it failed."""
    error: str
    """Why it failed, in one line; empty if it did not."""


def run_all(
    jobs: Sequence[Job],
    run_job: Callable[[Job], Result],
    *,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    retries: int = 3,
) -> Iterator[Outcome[Job, Result]]:
    """Run every job wherever the cluster has free resources; a failure does not stop the others.

    `run_job` is a function of an importable module, because Ray sends it by name. A job whose process or
    node is lost runs again, up to `retries` times; one that raises does not. Jobs that write files need a
    file system that all nodes share. Closing the iterator cancels unfinished jobs.
    """
    task = ray.remote(run_job).options(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=retries)
    pending = {task.remote(job): job for job in jobs}
    try:
        while pending:
            for reference in wait_for_any(list(pending), _TICK):
                yield _outcome(pending.pop(reference), reference)
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)


def _outcome(job: Job, reference: ray.ObjectRef) -> Outcome[Job, Any]:
    try:
        return Outcome(job, ray.get(reference), "")
    except RayTaskError as error:
        cause = error.cause
        return Outcome(job, None, " ".join(f"{type(cause).__name__}: {cause}".split()))
    except RayError as error:
        return Outcome(job, None, " ".join(str(error).split()).partition(". ")[0])
