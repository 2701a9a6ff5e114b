"""The replay learner on Atari: frames kept once, read from files, resumed to the same bytes, refined."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import visr
from tests.training.test_replay_loop import files
from visr import config as configuration
from visr import pretraining
from visr.config import presets
from visr.errors import Stopped, UserError
from visr.storage.records.task import TaskPrompt
from visr.storage.run_dir import RunDir
from visr.training.driver import Status
from visr.training.recorded_steps import RecordedSteps, empty_unroll
from visr.training.replay_loop import ReplayLoop

pytest.importorskip("ale_py")

PONG = configuration.replace(
    presets.for_environment("ALE/Pong-v5", "replay"),
    env="ALE/Pong-v5",
    torso="small",
    num_envs=4,
    unroll_length=8,
    num_steps=192,
    warmup_steps=64,
    num_updates=4,
    max_episode_frames=48,
    log_every=64,
    checkpoint_every=64,
    library_size=8,
    num_threads=1,
    num_features=16,
    transitions_per_update=8,
    tasks_per_update=4,
    num_stages=1,
    feature_updates=2,
    goal_share=0.01,
    stretch_share=0.003,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretraining.start(tmp_path_factory.mktemp("frames") / "whole", PONG).path


def test_what_is_drawn_are_the_stacks_that_were_recorded():
    """The same steps, once with whole observations and once with frames, through a ring that overwrites."""
    loop = ReplayLoop(PONG)
    space, size = loop.agent.spec.observation_space, loop.agent.task_size
    example = empty_unroll(loop.agent.spec, 8, size)
    plain = RecordedSteps(48, example, space)
    compact = RecordedSteps(48, example, space, are_stacks=True)
    (pool,) = loop.actor_pools
    num_resets = 0
    for _ in range(3):  # 12 unrolls; 6 fit
        pool.begin(loop.agent.psi, loop.practice.pursuit)
        (unroll,) = pool.collect()
        num_resets += int(unroll.is_reset.sum())
        for recorded in (plain, compact):
            recorded.add(unroll)
        for a, b in zip(*(both(r) for r in (plain, compact)), strict=True):
            assert torch.equal(a, b)
    assert num_resets > 0
    loop.close()


def both(recorded: RecordedSteps) -> list[torch.Tensor]:
    """Whole unrolls, and observations before and after random steps."""
    unroll = recorded.sample(torch.Generator().manual_seed(0), 32)
    time, slot = recorded._draw(32, torch.Generator().manual_seed(1))
    steps = recorded._steps(time, slot)
    assert steps.observation is not None
    return [*unroll, steps.observation, steps.next_observation]


def test_a_stopped_run_resumes_to_the_same_bytes(whole: Path, tmp_path: Path):
    def stop(status: Status) -> None:
        if status.num_steps >= 100:
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, Stopped)):
        pretraining.start(tmp_path / "stopped", PONG, stop)
    pretraining.resume(tmp_path / "stopped")
    assert files(tmp_path / "stopped") == files(whole)


def test_a_million_steps_take_less_than_8_gigabytes(whole: Path):
    """By the bytes of a recording of ALE and of the preset's longer unrolls."""
    recorded = sum(path.stat().st_size for path in RunDir(whole).replay_pieces())
    frame, steps = 84 * 84, 192
    besides = recorded / steps - frame * (8 + 4) / 8  # actions, flags and tasks of unrolls
    length = presets.for_environment("ALE/Pong-v5", "replay").training.unroll_length
    assert 0 < besides < 500
    assert 1e6 * (frame * (length + 4) / length + besides) < 8e9


def test_refinement_reads_the_frames_from_the_files(whole: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("visr.finetuning.refine._UPDATES", 2)
    run = visr.load(whole)
    steps = run.offline_steps
    seen = steps.observations(steps.after[:8])
    assert seen.shape == (8, 4, 84, 84)
    assert not isinstance(steps.observation, torch.Tensor)
    prompt = TaskPrompt("function", "bright", function=bright)
    task = dataclasses.replace(run.skill(0), prompt=prompt)
    refined = run.refine(task, num_updates=2)
    assert refined.refinement is not None
    assert refined.refinement.num_steps == len(steps)
    again = run.refine(task, num_updates=2)
    assert again.refinement is not None
    assert again.refinement.value == refined.refinement.value


def bright(before: np.ndarray, action: np.ndarray, after: np.ndarray) -> np.ndarray:
    """How bright the newest frame is."""
    return after[:, -1].mean(axis=(1, 2))


def test_damaged_or_missing_frames_are_refused(whole: Path, tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    piece = RunDir(copy).replay_pieces()[0]
    content = bytearray(piece.read_bytes())
    content[-100] ^= 1
    piece.write_bytes(bytes(content))
    with pytest.raises(UserError, match=r"damaged.*checksum"):
        _ = visr.load(copy).offline_steps
    shutil.rmtree(copy / "replay")
    with pytest.raises(UserError, match="keeps no steps to refine from"):
        _ = visr.load(copy).offline_steps
