"""Ray for the time of a run: started on this machine, or joined where it is."""

from __future__ import annotations

import contextlib
import logging
import math
import re
import socket
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import ray

from visr import envs
from visr.config import RunConfig
from visr.errors import UserError

_SMALLEST_STORE = 128 * 2**20
"""Bytes of the object store of a local session; Ray wants 75 MB."""

_PATIENCE = 10.0
"""Seconds to wait for a cluster's machine to answer."""


class Needs(NamedTuple):
    """What processes ask for, all together."""

    num_cpus: float
    num_gpus: float = 0.0
    store_bytes: int = _SMALLEST_STORE
    """Of the object store."""


@contextlib.contextmanager
def joined(address: str, needs: Needs) -> Iterator[None]:
    """A session with Ray; one that exists already in this process is used and left as it is.

    `local` starts Ray here, with as many CPUs as are needed; `auto`, `ray://host:port` and `host:port` name a
    cluster that runs already.
    """
    if ray.is_initialized():
        yield
        return
    if address == "local":
        start(math.ceil(needs.num_cpus), needs.store_bytes)
    else:
        join(address)
    try:
        _refuse_missing_gpus(needs, address)
        yield
    finally:
        ray.shutdown()


def start(num_cpus: int, store_bytes: int = _SMALLEST_STORE) -> None:
    """Ray on this machine, for this process and no longer."""
    options = {"num_cpus": max(num_cpus, 1), "object_store_memory": store_bytes}
    _init(address="local", include_dashboard=False, **options)


def check(address: str) -> None:
    """Whether these words can name a place at all; nobody is asked."""
    if address not in ("local", "auto") and not re.fullmatch(r"(ray://)?[^/:]+:\d{1,5}", address):
        raise UserError(
            f"--cluster {address} is no place; it can be local, auto, ray://host:10001 or host:port."
        )


def join(address: str) -> None:
    """An existing cluster, or a sentence that says why not."""
    check(address)
    try:
        if address != "auto":  # Ray would knock for minutes
            host, port = address.removeprefix("ray://").split(":")
            socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
        with warnings.catch_warnings():  # Ray warns of what it then raises
            warnings.simplefilter("ignore")
            _init(address=address)
    except (OSError, OverflowError, ValueError, RuntimeError, AssertionError) as error:
        why = " ".join(str(error).split()).partition(". ")[0].rstrip(".")
        raise UserError(
            f"There is no Ray cluster to join at {address!r} ({why[:200]}); start one with "
            "`ray start --head`, set RAY_AUTH_TOKEN if it wants a token, or use --cluster local."
        ) from None


def _init(**options: Any) -> None:
    # Results go to stdout, so what workers print must not.
    ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)


def needs(config: RunConfig) -> Needs:
    """Of a run: its actors and learners, and room for all unrolls under way or waiting, twice over."""
    training, cluster = config.training, config.cluster
    num_actors = training.num_actor_groups + bool(training.num_rewarded_envs)
    cpus = num_actors * cluster.cpus_per_actor + cluster.num_learners * cluster.cpus_per_learner
    gpus = num_actors * cluster.gpus_per_actor + cluster.num_learners * cluster.gpus_per_learner
    most = max(2 * training.num_envs, (cluster.max_staleness + 2) * training.batch_size)
    return Needs(cpus, gpus, max(_SMALLEST_STORE, 2 * most * unroll_bytes(config)))


def unroll_bytes(config: RunConfig) -> int:
    """Of the observations of one unroll: nearly all of it."""
    space = envs.make_vec(config, 1).single_observation_space
    of_one = int(np.prod(space.shape or (1,))) * np.dtype(space.dtype or np.int64).itemsize
    return (config.training.unroll_length + 1) * of_one


def _refuse_missing_gpus(needs: Needs, address: str) -> None:
    """A local session gets no further GPUs; a cluster may grow."""
    there = ray.cluster_resources().get("GPU", 0)
    if address == "local" and needs.num_gpus > there:
        raise UserError(
            f"The actors and learners ask for {needs.num_gpus:g} GPUs, but this machine has {there:g}; "
            "lower --gpus-per-learner and --gpus-per-actor, or join a cluster with --cluster auto."
        )
