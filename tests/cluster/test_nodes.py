"""Nodes that come and go: several on one machine, by Ray's own `cluster_utils`."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from visr.cluster import probe
from visr.cluster.loop import ClusterLoop
from visr.training.loop import Loop


def test_training_outlives_a_lost_node_and_uses_an_added_one(tiny: Any):
    # The head holds the learner and one actor, the other node two actors; then that node dies, and a new
    # one takes its place.
    config = tiny(num_actor_groups=3, num_envs=24, max_staleness=3, num_steps=10**9)
    with probe.nodes(2, 2) as cluster, contextlib.closing(ClusterLoop(config)) as loop:
        rounds, num_updates, ready = loop.rounds(), 0, []
        for change in (
            lambda: cluster.remove_node(cluster.list_all_nodes()[1], allow_graceful=False),
            lambda: cluster.add_node(num_cpus=2),
            lambda: None,
        ):
            wanted = 1 if len(ready) == 1 else 3
            deadline = time.monotonic() + 120
            while loop.actors.num_ready != wanted or not num_updates:
                num_updates += len(next(rounds).metrics)
                assert time.monotonic() < deadline
            num_updates += sum(len(next(rounds).metrics) for _ in range(5))
            ready.append(loop.actors.num_ready)
            change()
        row = loop.vitals()
        assert ready == [3, 1, 3]
        assert loop.num_updates == num_updates
        assert loop.num_steps - loop.num_learned_steps == 40 * (row["queue"] + row["unrolls_dropped"])


def test_two_nodes_in_step_equal_one_machine(tiny: Any):
    config = tiny(num_actor_groups=2, num_steps=5_120)
    alone = Loop(config)
    with probe.nodes(1, 2), contextlib.closing(ClusterLoop(config)) as loop:
        for one, other in zip(alone.rounds(), loop.rounds(), strict=True):
            assert [{k: float(v) for k, v in m.items()} for m in one.metrics] == list(other.metrics)
        assert loop.is_done
