"""The report of a fine-tuned run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.made_up_runs import (
    GAME,
    MARKUP,
    Reader,
    contents,
    infer,
    infer_on_game,
    new_run,
    read,
    sentences,
)
from visr import report
from visr.config import FinetuneConfig
from visr.errors import UserError
from visr.storage.files import write_json
from visr.storage.records.finetuning import EpisodeScore, ExactScore, FinetunePlan, FinetuneResult
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows

BEFORE, AFTER = ExactScore(0.25, 2.0), ExactScore(0.75, 4.0)


def finetuned(path: Path, env: str = "visr/Grid-v0", **fields: Any) -> RunDir:
    """A finished fine-tuning of 2,000 steps."""
    run = new_run(path, env=env)
    settings = dataclasses.replace(FinetuneConfig(), num_steps=2000, seed=5)
    FinetunePlan(settings, (np.array([1.0, 0.0, 0.0]),), "mine").save(run)
    result = FinetuneResult(
        env=env, task="mine", from_scratch=False, num_steps=2000, num_updates=250, seed=5,
        before=BEFORE, after=AFTER,
    )  # fmt: skip
    dataclasses.replace(result, **fields).save(run)
    append_rows(run.metrics, ["num_steps", "loss", "reward"], [[1000, 9.0, 0.1], [2000, 1.0, 0.2]])
    return run


def test_the_page_shows_the_score_before_and_after(tmp_path: Path):
    run = finetuned(tmp_path / "run", num_free_steps=5000)
    infer(run, name="mine", file="task", evaluated=False)
    words = sentences(run)
    assert "2,000 steps in visr/Grid-v0, 3 features, seed 5; fine-tuned on the task mine." in words
    assert "Fraction of optimal pre-trained 0.250 after 2,000 rewarded steps 0.750" in words
    assert "It also learnt from 5,000 reward-free steps" in words
    assert f"visr finetune RUN --task {run.task('task')} --num-steps 2000 --seed 5" in words
    assert set(contents(run.report)) == {"index.html", "training.png", "policy_task.png"}


def test_a_game_shows_mean_scores(tmp_path: Path):
    before = EpisodeScore(mean=10.0, standard_error=1.0, human_normalised=None, scores=(9.0, 11.0))
    run = finetuned(tmp_path / "run", GAME, from_scratch=True, before=before, after=before)
    infer_on_game(run, name="mine", file="task")
    words = sentences(run)
    assert "starting from new weights" in words
    assert "Mean score of 2 episodes new 10.000 after 2,000 rewarded steps 10.000" in words


def test_an_unfinished_fine_tuning_names_the_command_that_continues_it(tmp_path: Path):
    run = finetuned(tmp_path / "run", after=None)
    run.metrics.write_text("num_steps,loss,reward\n1000,9.0,0.1\n")
    words = sentences(run)
    assert f"Training is not finished. Continue with visr finetune --resume {run.path}" in words
    assert "rewarded steps 0." not in words


def test_a_hostile_task_name_stays_text(tmp_path: Path):
    page = Reader(read(report.write(finetuned(tmp_path / "run", task=MARKUP).path)))
    assert "script" not in {tag for tag, _ in page.elements}
    assert page.words.count("<script>alert(1)</script>") == 2  # header, section


def test_a_damaged_result_is_one_sentence(tmp_path: Path):
    run = finetuned(tmp_path / "run")
    write_json(run.finetuned, {"format": 1, "before": {"fraction_of_optimal": "much"}})
    with pytest.raises(UserError, match=r"finetuned\.json is damaged"):
        report.write(run.path)
