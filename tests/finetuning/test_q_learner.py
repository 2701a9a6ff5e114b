"""Fine-tuning on the true reward."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visr
from tests.finetuning.stopping import assert_a_stop_changes_nothing
from visr import config as configuration
from visr import envs, pretraining
from visr.cli import main
from visr.commands import finetune as command
from visr.config import FinetuneConfig
from visr.errors import Stopped, UserError
from visr.finetuning import run as finetuning
from visr.finetuning.trainer import FineTuner
from visr.inference.asked_reward import asked_reward
from visr.storage.files import write_json
from visr.storage.records.finetuning import (
    EpisodeScore,
    ExactScore,
    FinetunePlan,
    FinetuneResult,
)
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir
from visr.training import checkpoint
from visr.training.actor import Actor
from visr.types import Unroll

SHORT: dict[str, Any] = {"num_steps": 3_200, "updates_per_round": 2, "checkpoint_every": 1_600}


@pytest.fixture(scope="module")
def pretrained(trained: Path) -> visr.Run:
    return visr.load(trained)


@pytest.fixture(scope="module")
def finetuned(pretrained: visr.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a short fine-tuned run; tests must not change it."""
    path = tmp_path_factory.mktemp("finetuned") / "run"
    return pretrained.finetune(pretrained.infer("goal:2,3"), out=path, num_steps=320).path


@pytest.fixture
def task(pretrained: visr.Run) -> Task:
    return pretrained.infer("goal:2,3")


def tuner(run: visr.Run, task: Task, **fields: Any) -> FineTuner:
    agent = finetuning.initial_agent(run.visr, run.config, FinetuneConfig(**fields))
    settings = configuration.finetune_settings({**SHORT, **fields})
    asked = asked_reward(task, agent, envs.space_codec(run.config))
    return FineTuner(agent, run.config, settings, task.w, task.w[None], asked)


def test_the_first_q_values_are_psi_read_out_at_w(pretrained: visr.Run, task: Task):
    # argmax Q = argmax psi . w before anything is learnt: the same policy as without fine-tuning.
    fine = tuner(pretrained, task)
    unroll = fine._act()
    with torch.no_grad():
        q = fine.learner.values(fine.agent.psi, unroll).squeeze(-1)
    psi = pretrained.successor_features(unroll.observation.numpy(), task.w)
    np.testing.assert_allclose(q.numpy(), psi @ task.w, atol=1e-5)


def test_fine_tuning_does_not_change_the_runs_own_agent(
    pretrained: visr.Run, task: Task, tmp_path: Path
):
    before = {k: v.clone() for k, v in pretrained.agent.state_dict().items()}
    better = pretrained.finetune(task, out=tmp_path / "fine", **SHORT)
    after = pretrained.agent.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
    learnt = better.agent.state_dict()
    assert all(torch.equal(before[k], learnt[k]) for k in before if k.startswith("phi."))
    assert not torch.equal(before["psi.readout.weight"], learnt["psi.readout.weight"])


def test_fine_tuning_learns_a_goal_that_inference_missed(
    pretrained: visr.Run, task: Task, tmp_path: Path
):
    fields = {"num_steps": 32_000, "learning_rate": 1e-3, "updates_per_round": 8}
    better = pretrained.finetune(task, out=tmp_path / "fine", **fields)
    content = json.loads(better.directory.finetuned.read_text())
    before, after = (content[k]["fraction_of_optimal"] for k in ("before", "after"))
    assert before < 0.3
    assert after > before + 0.3
    again = better.evaluate_exactly(Task.load(better.directory.task(finetuning.TASK)), gpi=False)
    assert again.fraction_of_optimal == after


def test_from_scratch_starts_with_newly_initialised_weights(pretrained: visr.Run, task: Task):
    fresh, other = (tuner(pretrained, task, from_scratch=True, seed=s) for s in (0, 1))
    mine = pretrained.agent.psi.state_dict()["readout.weight"]
    weights = [f.agent.psi.state_dict()["readout.weight"] for f in (fresh, other)]
    assert not any(torch.equal(mine, w) for w in weights)
    assert not torch.equal(*weights)


def test_epsilon_starts_at_one_only_from_scratch(
    pretrained: visr.Run, task: Task, monkeypatch: pytest.MonkeyPatch
):
    seen: list[float] = []
    collect = Actor.collect

    def spy(self: Actor, *others: Any, epsilon: float, **more: Any) -> Unroll:
        seen.append(epsilon)
        return collect(self, *others, epsilon=epsilon, **more)

    monkeypatch.setattr(Actor, "collect", spy)
    for is_fresh in (True, False):
        fields = {"from_scratch": True, "exploration_steps": 10**9} if is_fresh else {}
        tuner(pretrained, task, **fields)._act()
    assert seen == [1.0, 0.05]


def test_a_sweep_acts_for_many_tasks_and_labels_the_steps_with_one(
    pretrained: visr.Run, task: Task, monkeypatch: pytest.MonkeyPatch
):
    pursued: list[torch.Tensor] = []
    collect = Actor.collect

    def spy(self: Actor, *others: Any, **more: Any) -> Unroll:
        unroll = collect(self, *others, **more)
        pursued.append(unroll.w)
        return unroll

    monkeypatch.setattr(Actor, "collect", spy)
    fine = tuner(pretrained, task, sweep_steps=160)
    w = torch.as_tensor(task.w, dtype=torch.float32)
    for swept in (True, False):
        unroll = fine._act()
        fine.num_steps += unroll.num_steps
        assert len(pursued[-1].unique(dim=0)) == (8 if swept else 1)
        assert torch.equal(unroll.w, w.expand(8, -1))
        assert task.reward is not None
        expected = task.reward[unroll.observation[1:].numpy()]
        np.testing.assert_allclose(unroll.reward.numpy(), expected, rtol=1e-6)


def test_unit_and_offset_are_the_regression_of_the_reward_on_phi_w(
    pretrained: visr.Run, task: Task
):
    # A reward that is exactly 3 phi . w + 2: the unit is 3, the rest 2 / 3 per step.
    states = np.arange(pretrained.agent.spec.observation_space.n)  # pyright: ignore
    along = pretrained.features(states) @ task.w
    exact = dataclasses.replace(task, reward=3 * along + 2)
    fine = tuner(pretrained, exact)
    for _ in range(5):
        fine.replay.add(fine._act())
    fine.learner.estimate_unit(fine.replay.all())
    assert fine.learner.unit == pytest.approx(3, rel=1e-3)
    expected = 2 / 3 / (1 - pretrained.config.agent.gamma)
    assert fine.learner.offset.item() == pytest.approx(expected, rel=1e-2)


def test_a_killed_fine_tuning_resumes_to_the_same_result(
    pretrained: visr.Run, task: Task, tmp_path: Path
):
    assert_a_stop_changes_nothing(pretrained, task, tmp_path, at=2_400, fields=SHORT)


def test_a_fine_tuning_that_is_asked_to_stop_saves_its_work(
    pretrained: visr.Run, task: Task, tmp_path: Path
):
    assert_a_stop_changes_nothing(pretrained, task, tmp_path, at=2_240, fields=SHORT, politely=True)


def test_a_stop_on_the_command_line_says_how_to_resume(
    pretrained: visr.Run,
    task: Task,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    task.save(tmp_path / "task.json")
    rounds = FineTuner.round

    def ask(self: FineTuner) -> dict[str, float]:
        os.kill(os.getpid(), signal.SIGINT)
        return rounds(self)

    words = ["finetune", str(pretrained.path), "--task", str(tmp_path / "task.json")]
    with monkeypatch.context() as patch:
        patch.setattr(FineTuner, "round", ask)
        assert main([*words, "--out", str(tmp_path / "f"), "--num-steps", "800"]) == 130
    said = capsys.readouterr().err
    assert said.startswith("visr: Stopped; the run is saved as of step 160.")
    advice = said.split("`visr ")[1].split("`")[0].split()
    assert main(advice) == 0


def test_a_stop_while_the_run_is_created_leaves_a_complete_run(
    pretrained: visr.Run, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    writes = FinetunePlan.save

    def ask(self: FinetunePlan, run: RunDir) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        writes(self, run)

    with monkeypatch.context() as patch:
        patch.setattr(FinetunePlan, "save", ask)
        with pytest.raises(Stopped, match="as of step 0"):
            pretrained.finetune(task, out=tmp_path / "f", num_steps=160)
    assert json.loads(finetuning.resume(tmp_path / "f").finetuned.read_text())["num_steps"] == 160


def test_a_fine_tuned_run_is_not_taken_for_pre_training(
    finetuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    fine = visr.load(shutil.copytree(finetuned, tmp_path / "run"))
    assert main(["report", str(fine.path)]) == 0
    page = (fine.path / "report" / "index.html").read_text()
    assert "fine-tuned on one reward" in page
    assert "Before and after fine-tuning" in page
    assert "after 320 rewarded steps" in page
    assert "8 unrolls of 20" in page
    assert "not finished" not in page
    assert "missing from the run" not in page
    assert (fine.path / "report" / "training.png").is_file()
    assert "finetune RUN --task" in re.sub("<.*?>", "", page)
    content = json.loads(fine.directory.finetuned.read_text())
    write_json(fine.directory.finetuned, content | {"task": "<script>alert(1)</script>"})
    assert main(["report", str(fine.path)]) == 0
    assert "<script>alert" not in (fine.path / "report" / "index.html").read_text()
    write_json(fine.directory.finetuned, content | {"before": {"fraction_of_optimal": "much"}})
    assert main(["report", str(fine.path)]) == 2
    write_json(fine.directory.finetuned, content)
    capsys.readouterr()
    assert main(["pretrain", "--resume", str(fine.path)]) == 2
    assert "visr finetune --resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("returns", torch.zeros(3)),
        ("returns", torch.full((8,), math.nan)),
        ("offset", torch.tensor(math.inf)),
        ("reports.loss", torch.zeros(2, 2, dtype=torch.float64)),
        ("reports.wormholes", torch.zeros(2, dtype=torch.float64)),
    ],
)
def test_a_checkpoint_with_unusable_tensors_is_refused(
    finetuned: Path, tmp_path: Path, name: str, value: torch.Tensor
):
    run = RunDir(shutil.copytree(finetuned, tmp_path / "run"))
    tensors, counts = checkpoint.load(checkpoint.newest(run))
    checkpoint.save(run, tensors | {name: value}, counts, num_steps=320)
    with pytest.raises(UserError, match="does not fit"):
        finetuning.resume(run.path)


def test_a_checkpoint_of_another_step_than_its_name_is_refused(finetuned: Path, tmp_path: Path):
    run = RunDir(shutil.copytree(finetuned, tmp_path / "run"))
    tensors, counts = checkpoint.load(checkpoint.newest(run))
    checkpoint.save(run, tensors, counts | {"num_steps": 160}, num_steps=320)
    with pytest.raises(UserError, match="does not fit"):
        finetuning.resume(run.path)


def test_a_fine_tuned_run_records_the_device_it_was_trained_on(
    pretrained: visr.Run, task: Task, tmp_path: Path
):
    elsewhere = configuration.replace(pretrained.config, device="cuda")
    made = finetuning.start(
        tmp_path / "f", elsewhere, pretrained.visr, task, [], FinetuneConfig(num_steps=160)
    )
    assert made.config().training.device == "cpu"


def test_gpi_uses_the_other_saved_tasks_at_first(trained: Path, tmp_path: Path, task: Task):
    run = visr.load(trained)
    other = dataclasses.replace(task, name="other", w=-task.w)
    agent, settings = run.visr, configuration.finetune_settings(SHORT)
    made = finetuning.start(
        tmp_path / "fine", run.config, agent, task, [task, other, task], settings
    )
    saved = np.asarray(json.loads(made.finetune.read_text())["saved"])
    np.testing.assert_array_equal(saved, np.stack([task.w, -task.w]))


def test_the_tasks_for_gpi_can_be_given(trained: Path, tmp_path: Path, task: Task):
    run = visr.load(trained)
    other = dataclasses.replace(task, name="other", w=-task.w)
    tuned = run.finetune(task, out=tmp_path / "fine", consult=[other], **SHORT)
    saved = np.asarray(json.loads(tuned.directory.finetune.read_text())["saved"])
    np.testing.assert_array_equal(saved, np.stack([task.w, -task.w]))


def test_a_fine_tuned_run_acts_without_gpi(trained: Path, tmp_path: Path, task: Task):
    run = visr.load(trained)
    assert run.config.agent.gpi
    tuned = run.finetune(task, out=tmp_path / "fine", **SHORT)
    assert not tuned.config.agent.gpi


def test_runs_with_tasks_shorter_than_unrolls_can_be_fine_tuned(tmp_path: Path, tiny: Any):
    fields = {"task_distribution": "visited", "task_steps": 8, "unroll_length": 40}
    run = visr.load(pretraining.start(tmp_path / "run", tiny(num_steps=5_120, **fields)).path)
    tuned = run.finetune(run.infer("goal:2,3"), out=tmp_path / "fine", **SHORT)
    assert tuned.num_steps == SHORT["num_steps"]


def test_a_saved_unit_of_zero_is_refused(pretrained: visr.Run, task: Task):
    some = tuner(pretrained, task)
    tensors, counts = some.state()
    with pytest.raises(ValueError, match="its unit is"):
        some.load_state({**tensors, "unit": torch.tensor(0.0, dtype=torch.float64)}, counts)


def test_the_command_line_fine_tunes_and_resumes(
    trained: Path, task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    task.save(tmp_path / "task.json")
    place, words = str(tmp_path / "fine"), ["--num-steps", "1600", "--updates-per-round", "1"]
    arguments = ["finetune", str(trained), "--task", str(tmp_path / "task.json")]
    assert main([*arguments, "--out", place, *words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["num_steps"] == 1600
    assert set(content["after"]) == {"fraction_of_optimal", "value"}
    assert main(["finetune", "--resume", place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"] == content["after"]
    assert main(["evaluate", place, "task", "--json"]) == 0


@pytest.mark.parametrize(
    ("before", "after", "is_worse"),
    [
        (ExactScore(0.9, 1.0), ExactScore(0.4, 1.0), True),
        (ExactScore(0.9, 1.0), ExactScore(0.895, 1.0), False),
        (EpisodeScore(5.0, 0.3, None, ()), EpisodeScore(3.0, 0.4, None, ()), True),
        (EpisodeScore(5.0, 0.3, None, ()), EpisodeScore(4.1, 0.4, None, ()), False),
        (EpisodeScore(5.0, None, None, ()), EpisodeScore(5.0, None, None, ()), False),
    ],
)
def test_the_command_line_says_when_the_score_is_lower_than_before(
    before: Any, after: Any, is_worse: bool, tmp_path: Path
):
    counts: dict[str, Any] = {"num_steps": 9, "num_updates": 1, "seed": 0}
    result = FinetuneResult(
        env="x", task="y", from_scratch=False, before=before, after=after, **counts
    )
    said = " ".join(command.remarks(result, RunDir(tmp_path)))
    assert ("lower than before" in said) == is_worse
    assert ("Next: visr play" in said) != is_worse


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "Give a RUN and a --task"),
        (["--resume", "nowhere"], "There is no run at nowhere"),
        (["RUN", "--task", "no-such"], "There is no task 'no-such'"),
        (["RUN", "--task", "TASK", "--num-steps", "0"], "num_steps = 0 is too small"),
        (["--resume", "RUN"], "was not made by `visr finetune`"),
        (["--resume", "RUN", "--seed", "3"], "--resume takes everything from the run"),
    ],
)
def test_wrong_arguments_are_one_sentence(
    words: list[str],
    complaint: str,
    trained: Path,
    task: Task,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    task.save(tmp_path / "task.json")
    places = {"RUN": str(trained), "TASK": str(tmp_path / "task.json")}
    assert main(["finetune", *(places.get(word, word) for word in words)]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_a_task_without_a_reward_cannot_be_fine_tuned_on_the_grid(
    pretrained: visr.Run, task: Task, tmp_path: Path
):
    bare = dataclasses.replace(task, reward=None)
    with pytest.raises(UserError, match="carries no reward"):
        pretrained.finetune(bare, out=tmp_path / "fine")
    assert not (tmp_path / "fine").exists()
