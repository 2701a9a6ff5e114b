"""Fine-tuning on reward-free steps that a reward model labels."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visr
from tests.finetuning.stopping import assert_a_stop_changes_nothing
from visr import config as configuration
from visr import envs
from visr.cli import main
from visr.commands import finetune as command
from visr.errors import UserError
from visr.finetuning import run as finetuning
from visr.finetuning.relabelling import sample_near_rewards
from visr.finetuning.trainer import FineTuner
from visr.inference.asked_reward import asked_reward
from visr.storage.records.finetuning import EpisodeScore, FinetuneResult
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir
from visr.training.replay import ReplayBuffer
from visr.types import Unroll

FREE: dict[str, Any] = {
    "num_steps": 4_800,
    "free_steps": 10_000,
    "free_updates": 20,
    "updates_per_round": 2,
    "sweep_steps": 2_400,
    "checkpoint_every": 1_600,
}


@pytest.fixture(scope="module")
def pretrained(trained: Path) -> visr.Run:
    return visr.load(trained)


@pytest.fixture
def task(pretrained: visr.Run) -> Task:
    return pretrained.infer("boxes:7")


def tuner(run: visr.Run, task: Task, **fields: Any) -> FineTuner:
    settings = configuration.finetune_settings({**FREE, **fields})
    agent = finetuning.initial_agent(run.visr, run.config, settings)
    asked = asked_reward(task, run.visr, envs.space_codec(run.config))
    return FineTuner(agent, run.config, settings, task.w, task.w[None], asked, run.visr)


def test_free_steps_are_stored_without_their_rewards(pretrained: visr.Run, task: Task):
    fine = tuner(pretrained, task)
    assert fine.relabelled is not None
    fine.round()
    free = fine.relabelled._free.all()
    assert free.num_steps == 1_000
    assert bool(free.reward.isnan().all())


def test_free_steps_are_collected_first_and_not_counted_as_rewarded(
    pretrained: visr.Run, task: Task
):
    fine = tuner(pretrained, task)
    assert fine.relabelled is not None
    for count in range(10):
        assert fine.note == f"gathering: {1_000 * count:,} of 10,000 reward-free steps"
        fine.round()
    assert fine.relabelled.num_steps == 10_000
    assert (fine.num_steps, fine.note) == (0, "")
    fine.round()
    assert fine.num_steps == 160


def test_q_learns_from_free_steps_alone_before_it_acts(pretrained: visr.Run, task: Task):
    fine = tuner(pretrained, task)
    while fine.num_updates == 0:
        fine.round()
    steps = fine.num_steps
    assert steps == FREE["sweep_steps"]
    while fine.num_updates < FREE["free_updates"]:
        assert fine.note.startswith("learning from them")
        fine.round()
    assert fine.num_steps == steps
    fine.round()
    assert fine.num_steps == steps + 160


def test_the_model_predicts_the_rewards_of_free_steps(pretrained: visr.Run, task: Task):
    fine = tuner(pretrained, task)
    while fine.num_updates == 0:
        fine.round()
    assert fine.relabelled is not None
    assert task.reward is not None
    seen = fine.relabelled.sample(200, torch.Generator().manual_seed(0))
    truth = task.reward[seen.observation[1:].numpy()]
    happened = ~seen.is_reset.numpy()
    error = np.square(seen.reward.numpy() - truth)[happened].mean()
    assert 1 - error / truth[happened].var() > 0.9


def test_r_squared_uses_only_steps_that_the_model_has_not_seen(pretrained: visr.Run, task: Task):
    fine = tuner(pretrained, task, free_updates=0)
    assert fine.relabelled is not None
    reports = [fine.round() for _ in range(10 + 15)]
    assert not any("foreseen" in report for report in reports)  # the model is new
    for _ in range(5):
        report = fine.round()
    assert 0.5 < report["foreseen"] <= 1.0  # pyright: ignore


def test_a_sweep_continues_until_the_first_reward(
    pretrained: visr.Run, task: Task, monkeypatch: pytest.MonkeyPatch
):
    fine = tuner(pretrained, task)
    kept = fine._with_reward
    monkeypatch.setattr(
        fine, "_with_reward", lambda u: u._replace(reward=torch.zeros_like(u.reward))
    )
    while fine.num_steps < 4_000:
        fine.round()
    assert fine.num_updates == 0
    monkeypatch.setattr(fine, "_with_reward", kept)
    for _ in range(2):
        fine.round()
    assert fine.num_updates > 0


def test_weights_undo_the_preference_for_rewarded_unrolls():
    # 1 of 10 unrolls holds a reward: half of all draws, and a few of the rest, are that one.
    unroll = _unrolls(10)
    unroll.reward[3, 7] = 1.0
    replay = ReplayBuffer(10, unroll)
    replay.add(unroll)
    batch, weight = sample_near_rewards(replay, 20_000, torch.Generator().manual_seed(0))
    rewarded = batch.reward.any(dim=0)
    assert float(rewarded.float().mean()) == pytest.approx(0.55, abs=0.02)
    assert float((weight * rewarded).sum() / weight.sum()) == pytest.approx(0.1, abs=0.01)


def test_without_rewards_all_weights_are_one():
    replay = ReplayBuffer(10, _unrolls(1))
    replay.add(_unrolls(10))
    _, weight = sample_near_rewards(replay, 6, torch.Generator())
    assert weight.tolist() == [1.0] * 6


@pytest.mark.parametrize("from_scratch", [False, True])
def test_a_killed_run_collects_the_same_free_steps_and_ends_the_same(
    pretrained: visr.Run, task: Task, tmp_path: Path, from_scratch: bool
):
    fields = {**FREE, "from_scratch": from_scratch}  # stopped long after Q first learnt
    cut = assert_a_stop_changes_nothing(pretrained, task, tmp_path, at=4_000, fields=fields)
    done = cut.finetuned.read_bytes()
    finetuning.resume(cut.path)  # there is nothing left to do
    assert cut.finetuned.read_bytes() == done


def test_a_run_that_is_asked_to_stop_while_it_catches_up_saves_its_updates(
    pretrained: visr.Run, task: Task, tmp_path: Path
):
    fields = {**FREE, "free_updates": 200}  # more than one round's
    assert_a_stop_changes_nothing(
        pretrained, task, tmp_path, at=2_400, fields=fields, politely=True
    )


def test_free_steps_that_do_not_fit_in_memory_are_refused_before_evaluation(
    pretrained: visr.Run, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(finetuning, "evaluate", lambda *_: pytest.fail("played"))
    with pytest.raises(UserError, match="sweep_steps = 9"):
        pretrained.finetune(task, out=tmp_path / "f", num_steps=8, sweep_steps=9, free_steps=9)


def test_free_steps_improve_the_score_for_the_same_rewarded_steps(
    pretrained: visr.Run, task: Task, tmp_path: Path
):
    fields: dict[str, Any] = {"num_steps": 3_200, "learning_rate": 1e-3, "from_scratch": True}
    free: dict[str, Any] = {"free_steps": 50_000, "free_updates": 800, "sweep_steps": 2_400}
    worth = []
    for name, more in (("free", free), ("bare", {})):
        run = pretrained.finetune(task, out=tmp_path / name, **fields, **more)
        worth.append(json.loads(run.directory.finetuned.read_text()))
    assert worth[0]["num_free_steps"] == 50_000
    assert worth[0]["reward_r_squared"] > 0.9
    assert (worth[1]["num_free_steps"], worth[1]["reward_r_squared"]) == (0, None)
    after = [w["after"]["fraction_of_optimal"] for w in worth]
    assert after[0] > 0.8
    assert after[0] > after[1] + 0.1


def test_the_command_line_says_how_well_rewards_were_predicted(
    trained: Path, task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    task.save(tmp_path / "task.json")
    arguments = ["finetune", str(trained), "--task", str(tmp_path / "task.json")]
    for name, value in FREE.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    assert main([*arguments, "--out", str(tmp_path / "fine")]) == 0
    said = capsys.readouterr()
    assert "10,000 reward-free steps" in said.err
    assert "of the variance of new rewards" in said.err


def test_the_command_line_says_when_there_was_no_reward(tmp_path: Path):
    score = EpisodeScore(0.0, 0.0, None, ())
    counts: dict[str, Any] = {"num_steps": 4_800, "num_updates": 0, "num_free_steps": 10_000}
    result = FinetuneResult(
        env="x", task="y", from_scratch=True, before=score, after=score, seed=0, **counts
    )
    said = command.remarks(result, RunDir(tmp_path))
    assert said == ["There was no reward in 4,800 steps, so nothing was learnt."]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"free_steps": 2**60}, "would take"),
        ({"free_steps": -1}, "free_steps = -1 is too small"),
        ({"free_share": 1.5}, "free_share = 1.5 must lie between 0 and 1"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(
    pretrained: visr.Run, task: Task, tmp_path: Path, fields: dict[str, Any], complaint: str
):
    with pytest.raises(UserError, match=complaint):
        pretrained.finetune(task, out=tmp_path / "fine", **{**FREE, **fields})
    assert not (tmp_path / "fine").exists()


def test_a_psi_with_an_lstm_is_refused(tmp_path: Path, tiny: Any):
    from visr import pretraining

    run = visr.load(pretraining.start(tmp_path / "run", tiny(num_steps=1_280, core="lstm")).path)
    with pytest.raises(UserError, match="is for a psi without memory"):
        run.finetune(run.infer("goal:2,3"), out=tmp_path / "fine", **FREE)
    assert not (tmp_path / "fine").exists()


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("numbers", torch.zeros(3).double(), "its statistics of rewards are damaged"),
        (
            "numbers",
            torch.tensor([0.0, 1.0, -1.0, 0.0, 0.0, 0.0]),
            "its statistics of rewards are damaged",
        ),
        ("lessons", torch.tensor(-5), "its model has had -5 updates"),
        ("lessons", torch.tensor(5), "its model has had 5 updates"),  # without any reward
        ("digest", torch.zeros(3, dtype=torch.uint8), "its digest of reward-free steps is damaged"),
        ("psi.readout.bias", torch.tensor([torch.nan]), "is not finite"),
    ],
)
def test_a_damaged_state_is_refused(
    pretrained: visr.Run, task: Task, name: str, value: torch.Tensor, complaint: str
):
    fine = tuner(pretrained, task)
    tensors, counts = fine.state()
    with pytest.raises(ValueError, match=complaint):
        fine.load_state({**tensors, f"relabelled.{name}": value}, counts)


@pytest.mark.parametrize("num_steps", [1_600, 2_400])
def test_q_can_learn_after_the_last_rewarded_step(
    pretrained: visr.Run, task: Task, tmp_path: Path, num_steps: int
):
    fields = {**FREE, "num_steps": num_steps, "sweep_steps": num_steps}
    run = pretrained.finetune(task, out=tmp_path / "fine", **fields)
    content = json.loads(run.directory.finetuned.read_text())
    assert (content["num_steps"], content["num_updates"]) == (num_steps, FREE["free_updates"])
    rows = run.directory.metrics.read_text().splitlines()
    assert [row.split(",")[0] for row in rows].count(str(num_steps)) == 1


def test_a_sweep_longer_than_all_steps_is_refused(pretrained: visr.Run, task: Task, tmp_path: Path):
    with pytest.raises(UserError, match="sweep_steps = 9,000 leave nothing of num_steps = 4,800"):
        pretrained.finetune(task, out=tmp_path / "fine", **{**FREE, "sweep_steps": 9_000})
    assert not (tmp_path / "fine").exists()


def test_small_negative_rewards_are_learned(pretrained: visr.Run, task: Task):
    # -0.05 everywhere but 1 in one box: what Q learns from has to say so, and so has the figure of the fit
    assert task.reward is not None
    costly = dataclasses.replace(task, reward=np.where(task.reward > 0, 1.0, -0.05))
    fine = tuner(pretrained, costly, free_updates=0)
    while fine.num_steps < FREE["num_steps"]:
        fine.round()
    assert fine.relabelled is not None
    seen = fine.relabelled.sample(200, torch.Generator().manual_seed(0))
    happened = ~seen.is_reset
    assert float((seen.reward[happened] < 0).float().mean()) > 0.5
    r_squared = fine.relabelled.r_squared
    assert r_squared is not None
    assert r_squared > 0.9


def test_rewards_of_steps_that_only_reset_are_ignored(
    pretrained: visr.Run, task: Task, monkeypatch: pytest.MonkeyPatch
):
    fine = tuner(pretrained, task)
    assert fine.relabelled is not None
    unroll = fine._act()
    everywhere = torch.ones_like(unroll.reward)
    fine.relabelled.observe_rewards(unroll._replace(reward=everywhere, is_reset=everywhere.bool()))
    assert not fine.relabelled.has_seen_rewards


def test_other_free_steps_after_a_stop_are_refused(pretrained: visr.Run, task: Task):
    fine, other = tuner(pretrained, task), tuner(pretrained, task)
    assert fine.relabelled is not None
    assert other.relabelled is not None
    while fine.note:
        fine.round()
    tensors = fine.relabelled.state()
    other.relabelled.load_state({**tensors, "digest": tensors["digest"].flip(0)})
    for _ in range(9):
        other.round()
    with pytest.raises(UserError, match="differ from those before the stop"):
        other.round()


@pytest.mark.parametrize("count", [1, 3, 8])
def test_weights_are_unbiased_for_any_batch_size(count: int):
    unroll = _unrolls(10)
    unroll.reward[3, 7] = 1.0
    replay, rng = ReplayBuffer(10, unroll), torch.Generator().manual_seed(0)
    replay.add(unroll)
    mean = 0.0
    for _ in range(2_000):
        batch, weight = sample_near_rewards(replay, count, rng)
        mean += float((weight * batch.reward.any(dim=0)).mean()) / 2_000
    assert mean == pytest.approx(0.1, abs=0.02)


def _unrolls(count: int, length: int = 5) -> Unroll:
    flag = torch.zeros(length, count, dtype=torch.bool)
    return Unroll(
        observation=torch.zeros(length + 1, count, dtype=torch.int64),
        action=torch.zeros(length, count, dtype=torch.int64),
        reward=torch.zeros(length, count),
        terminated=flag,
        truncated=flag,
        is_reset=flag,
        w=torch.zeros(count, 2),
        previous_action=torch.zeros(count, dtype=torch.int64),
        memory=torch.zeros(count, 0),
    )
