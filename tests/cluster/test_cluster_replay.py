"""The replay learner on Ray: bit for bit the single machine's, and it goes on when an actor dies."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest
import torch

from visr import config as configuration
from visr import pretraining
from visr.cluster.replay_loop import ClusterReplayLoop
from visr.config import presets
from visr.storage.tables import read_rows
from visr.training import checkpoint

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_session")]

CONFIG = configuration.replace(
    presets.get("replay-vectors"),
    env="CartPole-v1",
    num_envs=8,
    num_actor_groups=2,
    unroll_length=16,
    num_steps=2_048,
    warmup_steps=512,
    num_updates=12,
    log_every=1_024,
    checkpoint_every=1_024,
    recorded_steps=500,
)


def test_a_run_on_a_cluster_equals_one_machine_and_is_resumed_there(tmp_path: Path):
    alone = pretraining.start(tmp_path / "alone", CONFIG)
    run = pretraining.start(tmp_path / "ray", CONFIG, cluster="auto")
    (tensors, counts), (others, same) = (checkpoint.load(r.checkpoints()[-1]) for r in (alone, run))
    assert counts == same
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensor, others[name]) for name, tensor in tensors.items())
    assert run.metrics.read_bytes() == alone.metrics.read_bytes()
    assert read_rows(run.cluster_stats)[-1]["actors"] == 2
    run.checkpoints()[-1].unlink()
    pretraining.resume(run.path, cluster="auto")
    assert checkpoint.load(run.checkpoints()[-1])[1] == counts
    resumed = checkpoint.load(run.checkpoints()[-1])[0]
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in tensors.items())


def test_an_actor_that_dies_is_replaced_and_owes_nothing(caplog: pytest.LogCaptureFixture):
    config = configuration.replace(CONFIG, unroll_timeout=60.0)
    with contextlib.closing(ClusterReplayLoop(config)) as loop:
        (pool,) = loop.actor_pools
        victim = loop._pool._actors.supervisors[1]
        for k, _ in enumerate(loop.rounds()):
            if k == 3:
                os.kill(victim.pid, signal.SIGKILL)
        assert loop.num_steps == 2_048
        assert loop.recorded.buffer.num_added == 128  # unrolls of 16 steps, none lost or twice
        assert len(pool.state()) > 0
    assert victim.generation == 1
    assert "Actor 1 is replaced: its process or its node has gone" in caplog.text
