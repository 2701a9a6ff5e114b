"""Start Ray on this machine, or join a running cluster; run independent jobs there."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError
from ray.job_config import JobConfig

from visr import envs
from visr.cluster.supervisor import wait_for_any
from visr.config import RunConfig
from visr.errors import UserError

_MIN_STORE_BYTES = 128 * 2**20
"""Smallest object store of a local session; Ray requires 75 MB."""

_CONNECT_SECONDS = 10.0
"""Seconds to wait for a connection to a cluster."""


class Needs(NamedTuple):
    """Resources that all workers of a run need together."""

    num_cpus: float
    num_gpus: float = 0.0
    store_bytes: int = _MIN_STORE_BYTES
    """Size of the object store."""


@contextlib.contextmanager
def joined(address: str, needs: Needs) -> Iterator[None]:
    """A Ray session; an existing one in this process is used and not shut down.

    `local` starts Ray here, with as many CPUs as needed; `auto`, `ray://host:port` and `host:port` join a
    running cluster.
    """
    if ray.is_initialized():
        yield
        return
    if address == "local":
        start(math.ceil(needs.num_cpus), needs.store_bytes)
    else:
        join(address)
    try:
        _check_gpus(needs, address)
        yield
    finally:
        ray.shutdown()


def start(num_cpus: int, store_bytes: int = _MIN_STORE_BYTES) -> None:
    """Start Ray on this machine for the lifetime of this process."""
    options = {"num_cpus": max(num_cpus, 1), "object_store_memory": store_bytes}
    _init(address="local", include_dashboard=False, **options)


def check(address: str) -> None:
    """Refuse an address of a wrong form, without connecting."""
    if address not in ("local", "auto") and not re.fullmatch(r"(ray://)?[^/:]+:\d{1,5}", address):
        raise UserError(
            f"--cluster {address} is not an address; use local, auto, ray://host:10001 or host:port."
        )


def join(address: str) -> None:
    """Join a running cluster; a failure is a UserError."""
    check(address)
    try:
        if address != "auto":  # Ray itself would retry for minutes
            host, port = address.removeprefix("ray://").split(":")
            socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
        with warnings.catch_warnings():  # Ray warns before it raises
            warnings.simplefilter("ignore")
            _init(address=address)
    except (OSError, OverflowError, ValueError, RuntimeError, AssertionError) as error:
        why = " ".join(str(error).split()).partition(". ")[0].rstrip(".")
        raise UserError(
            f"There is no Ray cluster to join at {address!r} ({why[:200]}); start one with "
            "`ray start --head`, set RAY_AUTH_TOKEN if it wants a token, or use --cluster local."
        ) from None


class _OwnPath(JobConfig):
    """Without it, Ray puts the driver's working directory first on the module path of its workers."""

    def _runtime_env_has_working_dir(self) -> bool:
        return True


def _init(address: str, **options: Any) -> None:
    os.environ["PYTHONSAFEPATH"] = "1"  # for the processes of Ray
    if not address.startswith("ray://"):
        options["job_config"] = _OwnPath()
    # stdout is for results, so workers' output is not forwarded.
    ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)


def needs(config: RunConfig) -> Needs:
    """Resources of a run's actors and learners, and a store for twice the unrolls under way or queued."""
    training, cluster = config.training, config.cluster
    num_actors = training.num_actor_groups + bool(training.num_rewarded_envs)
    cpus = num_actors * cluster.cpus_per_actor + cluster.num_learners * cluster.cpus_per_learner
    gpus = num_actors * cluster.gpus_per_actor + cluster.num_learners * cluster.gpus_per_learner
    most = max(2 * training.num_envs, (cluster.max_staleness + 2) * training.batch_size)
    return Needs(cpus, gpus, max(_MIN_STORE_BYTES, 2 * most * unroll_bytes(config)))


def unroll_bytes(config: RunConfig) -> int:
    """Size of one unroll's observations, which are nearly all of it."""
    space = envs.make_vec(config, 1).single_observation_space
    of_one = int(np.prod(space.shape or (1,))) * np.dtype(space.dtype or np.int64).itemsize
    return (config.training.unroll_length + 1) * of_one


def _check_gpus(needs: Needs, address: str) -> None:
    """Refuse a local session without enough GPUs; a cluster may grow."""
    there = ray.cluster_resources().get("GPU", 0)
    if address == "local" and needs.num_gpus > there:
        raise UserError(
            f"The actors and learners ask for {needs.num_gpus:g} GPUs, but this machine has {there:g}; "
            "lower --gpus-per-learner and --gpus-per-actor, or join a cluster with --cluster auto."
        )


class Outcome(NamedTuple):
    """The result of a job, or why it failed."""

    job: Any
    result: Any
    """What it returned; None if it failed."""
    error: str
    """Why it failed, in one line; empty if it did not."""


def run_all(
    jobs: Sequence[Any], run_job: Callable[[Any], Any], num_cpus: float = 1.0
) -> Iterator[Outcome]:
    """Run every job as a Ray task; outcomes come in order of completion, and a failure stops no other job.

    `run_job` is a function of an importable module, because Ray sends it by name. A job whose process or
    node is lost runs again, up to three times; one that raises does not. Jobs that write files need a file
    system that all nodes share. Closing the iterator cancels unfinished jobs.
    """
    task = ray.remote(run_job).options(num_cpus=num_cpus, max_retries=3)
    pending = {task.remote(job): job for job in jobs}
    try:
        while pending:
            for reference in wait_for_any(list(pending), seconds=5.0):
                yield _outcome(pending.pop(reference), reference)
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)


def _outcome(job: Any, reference: ray.ObjectRef) -> Outcome:
    try:
        return Outcome(job, ray.get(reference), "")
    except RayTaskError as error:
        cause = error.cause
        return Outcome(job, None, " ".join(f"{type(cause).__name__}: {cause}".split()))
    except RayError as error:
        return Outcome(job, None, " ".join(str(error).split()).partition(". ")[0])
