"""A run on Ray equals that of a single machine bit for bit, also after a worker was killed."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from visr import pretraining
from visr.cluster import loop as cluster_loop
from visr.cluster import session as session_module
from visr.cluster.loop import ClusterLoop
from visr.errors import UserError
from visr.storage.run_dir import RunDir
from visr.storage.tables import read_rows
from visr.training import checkpoint
from visr.training.driver import Status
from visr.training.loop import Loop

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_session")]


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[ClusterLoop]:
    """Every loop that is made, so that a test can get at its processes."""
    made: list[ClusterLoop] = []

    class Noted(ClusterLoop):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(cluster_loop, "ClusterLoop", Noted)
    return made


def assert_identical(a: RunDir, b: RunDir) -> None:
    """Weights, optimisers, random state, environments, waiting unrolls; and all metrics."""
    (tensors, counts), (others, other_counts) = (
        checkpoint.load(checkpoint.newest(r)) for r in (a, b)
    )
    assert counts == other_counts
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, others[name]), name
    for file in ("metrics.csv", "evaluation.csv", "portrait.safetensors"):
        assert (a.path / file).read_bytes() == (b.path / file).read_bytes(), file


def test_synchronous_training_equals_one_machine_bit_for_bit(tmp_path: Path, tiny: Any):
    config = tiny(num_actor_groups=1, num_steps=6_400)
    alone = pretraining.start(tmp_path / "alone", config)
    assert_identical(pretraining.start(tmp_path / "ray", config, cluster="auto"), alone)


def test_a_killed_learner_resumes_from_the_last_checkpoint_without_double_counts(
    tmp_path: Path, tiny: Any, loops: list[ClusterLoop], caplog: pytest.LogCaptureFixture
):
    config = tiny(num_rewarded_envs=2, log_every=1_280)
    alone = pretraining.start(tmp_path / "alone", config)
    killed: list[int] = []

    def kill_once(status: Status) -> None:
        if status.num_steps >= 12_800 and not killed:
            killed.append(loops[0].learners.pids[0])
            os.kill(killed[0], signal.SIGKILL)

    run = pretraining.start(tmp_path / "ray", config, kill_once, cluster="auto")
    assert killed
    assert "Training goes on from step 10,240" in caplog.text
    assert read_rows(run.cluster_stats)[-1]["learner_restarts"] == 1
    assert_identical(run, alone)  # in step, even the new learner repeats what the old one did
    assert run.online.exists() == alone.online.exists()


def test_actors_that_die_or_hang_are_replaced_and_every_unroll_is_counted_once(
    tiny: Any, caplog: pytest.LogCaptureFixture
):
    config = tiny(
        num_actor_groups=3, num_envs=24, max_staleness=3, num_steps=10**9, unroll_timeout=6.0
    )
    with contextlib.closing(ClusterLoop(config)) as loop:
        dies, hangs, _ = loop.actors.supervisors
        num_updates, harmed = 0, False
        for current in loop.rounds():
            num_updates += len(current.metrics)
            assert current.num_updates == loop.num_updates == num_updates
            if not harmed and dies.is_ready and hangs.is_ready:
                os.kill(dies.pid, signal.SIGKILL)
                os.kill(hangs.pid, signal.SIGSTOP)
                harmed = True
            if dies.generation and hangs.generation and loop.actors.num_ready == 3:
                break
        learnt, row = loop.num_steps, loop.stats()
    assert learnt == num_updates * 32 * 40
    collected = loop.num_collected_steps
    assert collected - learnt == (row["queue"] + row["unrolls_dropped"]) * 40
    assert (row["actors"], row["actors_replaced"]) == (3, 2)
    assert 0 < row["max_staleness"] <= 3
    assert "Actor 0 is replaced: its process or its node has gone" in caplog.text
    assert "Actor 1 is replaced: nothing came back within 6 seconds" in caplog.text


def test_two_learners_that_split_batches_equal_one(tiny: Any):
    # Sums of gradients are rounded in another order, so they agree to float32's precision.
    fields = {"num_actor_groups": 1, "num_steps": 12_800, "max_episode_steps": 7, "micro_batch": 4}
    alone = Loop(tiny(**fields))
    with contextlib.closing(ClusterLoop(tiny(**fields, num_learners=2))) as together:
        for one, both in zip(alone.rounds(), together.rounds(), strict=True):
            for mine, theirs in zip(one.metrics, both.metrics, strict=True):
                for name in mine:
                    if name != "feature_concentration":  # a norm of means, not a mean
                        assert float(theirs[name]) == pytest.approx(float(mine[name]), rel=1e-4)
        assert together.num_updates == alone.learner.num_updates == 10
        for name, mine in alone.agent.state_dict().items():
            torch.testing.assert_close(
                together.agent.state_dict()[name], mine, rtol=1e-4, atol=1e-6
            )


def test_a_local_session_refuses_more_gpus_than_there_are():
    with pytest.raises(UserError, match=r"ask for 99 GPUs.*cluster=.auto"):
        session_module._check_gpus(session_module.Needs(1, 99.0), "local")


def test_two_learners_refuse_running_statistics(tiny: Any):
    with pytest.raises(UserError, match=r"num_learners = 2 does not work with running statistics"):
        ClusterLoop(tiny(env="CartPole-v1", num_learners=2))


def test_the_overhead_of_ray_is_measured_against_the_same_loop_in_one_process(tiny: Any):
    from experiments import cluster_overhead

    result = cluster_overhead.measure(tiny(num_envs=32), 0.2)
    assert result["ratio"] == pytest.approx(
        result["steps_per_second"] / result["limit_steps_per_second"]
    )
    assert result["overhead"] == pytest.approx(1 / result["ratio"] - 1)
    assert 0 < result["steps_per_second"] < math.inf
