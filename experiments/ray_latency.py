"""Measure Ray's own cost: the latency of a request, and the transfer of unrolls between nodes."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

from visr.cluster import session

_STORE = 512 * 2**20


class Echo:
    """The smallest Ray actor."""

    def nothing(self) -> None:
        """Return at once."""

    def unrolls(self, num_bytes: int) -> Any:
        """Random bytes, which cannot be compressed."""
        return np.random.default_rng(0).integers(256, size=num_bytes, dtype=np.uint8)


@contextlib.contextmanager
def nodes(*cpus: int) -> Iterator[Cluster]:
    """Several Ray nodes on this machine, each with its own store and processes; the first is the head."""
    head = {"num_cpus": cpus[0], "include_dashboard": False, "object_store_memory": _STORE}
    cluster = Cluster(initialize_head=True, connect=False, head_node_args=head)
    try:
        for number in cpus[1:]:
            cluster.add_node(num_cpus=number, object_store_memory=_STORE)
        session.join(str(cluster.address))
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def request_seconds(num_requests: int = 200) -> float:
    """Median seconds from a request to its answer."""
    echo: Any = ray.remote(Echo).options(num_cpus=0).remote()
    return _median(num_requests, lambda: None, lambda _: ray.get(echo.nothing.remote()))


def transfer_seconds(num_bytes: int, num_at_once: int, num_times: int = 5) -> float:
    """Seconds per object to copy several at once from another node's store. Needs `nodes(0, 1)`."""
    far: Any = ray.remote(Echo).options(num_cpus=1).remote()

    def make() -> Any:
        references = [far.unrolls.remote(num_bytes) for _ in range(num_at_once)]
        ray.wait(references, num_returns=num_at_once, fetch_local=False)
        return references

    return _median(num_times, make, ray.get) / num_at_once


def _median(num_times: int, make: Callable[[], Any], use: Callable[[Any], Any]) -> float:
    """Median seconds of `use(make())`, without `make`; the first call warms up and is not counted."""
    seconds = []
    for _ in range(num_times + 1):
        made = make()
        start = time.perf_counter()
        use(made)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])
