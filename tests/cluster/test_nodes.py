"""Nodes that come and go: several on one machine, by Ray's own `cluster_utils`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray

from experiments import ray_latency as latency
from visr.cluster.loop import ClusterLoop
from visr.training.loop import Loop

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """The head fits a learner and one actor, the other node two actors."""
    ray.shutdown()  # the session that other tests share
    with latency.nodes(2, 2) as cluster:
        yield cluster


@pytest.mark.usefixtures("nodes")
def test_two_synchronous_nodes_equal_one_machine(tiny: Any):
    config = tiny(num_actor_groups=3, num_steps=5_120)
    alone = Loop(config)
    with contextlib.closing(ClusterLoop(config)) as loop:
        for one, other in zip(alone.rounds(), loop.rounds(), strict=True):
            assert [{k: float(v) for k, v in m.items()} for m in one.metrics] == list(other.metrics)
        assert loop.is_done


@pytest.mark.usefixtures("nodes")
def test_rays_latency_is_measured():
    assert latency.request_seconds(5) > 0
    assert latency.transfer_seconds(10**6, num_at_once=2, num_times=2) > 0


def wait_until_all_is_free(num_cpus: int) -> None:
    """Wait for the workers of earlier tests to end: Ray would put the learner on the other node."""
    deadline = time.monotonic() + 300
    while ray.available_resources().get("CPU", 0) < num_cpus:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_training_survives_a_lost_node_and_uses_an_added_one(nodes: Any, tiny: Any):
    wait_until_all_is_free(num_cpus=4)
    config = tiny(num_actor_groups=3, num_envs=24, max_staleness=3, num_steps=10**9)
    with contextlib.closing(ClusterLoop(config)) as loop:
        rounds, num_updates = loop.rounds(), 0
        for num_ready, then in (
            (3, lambda: nodes.remove_node(nodes.list_all_nodes()[1], allow_graceful=False)),
            (1, lambda: nodes.add_node(num_cpus=2)),
            (3, lambda: None),
        ):
            deadline, before = time.monotonic() + 600, num_updates
            while loop.actors.num_ready != num_ready or num_updates < before + 5:
                num_updates += len(next(rounds).metrics)
                assert time.monotonic() < deadline
            then()
        row = loop.stats()
    assert loop.num_updates == num_updates
    assert loop.num_collected_steps - loop.num_steps == 40 * (row["queue"] + row["unrolls_dropped"])
