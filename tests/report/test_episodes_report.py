"""The report of a run outside the grid world: scores of whole episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.conftest import DPI
from tests.report.made_up_runs import (
    GAME,
    HOSTILE,
    METRICS,
    Reader,
    condition,
    contents,
    evaluation_of,
    game_run,
    infer_on_game,
    new_run,
    phase,
    read,
    score_online,
    sentences,
    size_in_inches,
    train_on_game,
    usual_phase,
)  # fmt: skip
from visr import report
from visr.report import commands, page, scores
from visr.report import read as reading
from visr.report.scores import Published
from visr.storage.files import write_json
from visr.storage.records.episodes import EpisodeEvaluation, PolicyReturns, Returns
from visr.storage.records.task import Task, TaskPrompt
from visr.storage.records.two_phase import TwoPhase
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return game_run(tmp_path / "run")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDir, dict[str, Any]]:
    """A game and the summary of its report; tests must not change it."""
    run = game_run(tmp_path_factory.mktemp("game") / "run")
    return run, report.write(run.path)


def test_a_game_gets_its_figures_and_a_json_summary(written: tuple[RunDir, dict[str, Any]]):
    run, summary = written
    figures = ("training.png", "online.png", "phase_two.png")
    assert set(contents(run.report)) == {"index.html", *figures}
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["online_score"] == 500  # 2 episodes each of 300, 500, 700
    assert len(summary["phase_two"]) == 4
    assert summary["phase_two"]["env-regression"] == {
        "mean": 812.0, "standard_error": 10.0, "human_normalised": 7.6
    }  # fmt: skip


def test_the_page_shows_the_scores_and_the_speed(written: tuple[RunDir, dict[str, Any]]):
    page = Reader(read(written[1]))
    assert sum(tag == "img" for tag, _ in page.elements) == 3
    for words in (
        *("3,000 steps (12,000 frames)", "812 ± 10", "7.6 %", "reached", "0.031", "567 steps/s"),
        *("@0 (a new task every 40 steps)", "31,234 steps in 50 episodes", "1,234 of these"),
        *("2 of the 34 environments", "6 episodes ended", "2.9 % human-normalised"),
    ):
        assert words in page.sentences
    for words in ("boxes:7", "Fraction of optimal", "cells"):
        assert words not in page.sentences


def test_the_page_suggests_commands_that_work_for_a_game(written: tuple[RunDir, dict[str, Any]]):
    path, words = written[0].path, Reader(read(written[1])).sentences
    next_steps = f"visr infer {path} --reward env visr evaluate {path} visr play {path}"
    assert f"{next_steps} --task env-regression --video out.mp4" in words


def test_the_suggested_video_is_of_a_task_that_exists(run: RunDir):
    run.task("env-regression").unlink()
    infer_on_game(run, name="mine", file="my-own")
    assert "--task my-own " in commands.play(reading.run_data(run.path))


def test_the_same_game_gives_the_same_bytes(written: tuple[RunDir, dict[str, Any]], tmp_path: Path):
    report.write(written[0].path, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(written[0].report)


# --- the comparison with the random policy


def compare(one: dict[str, Any], other: dict[str, Any], tmp_path: Path) -> str:
    write_json(tmp_path / "phase_two.json", phase(one, other))
    return page.verdict(TwoPhase.load(tmp_path / "phase_two.json", GAME))


def test_two_standard_errors_are_called_better_or_worse(tmp_path: Path):
    # 100 points with a standard error of sqrt(30^2 + 40^2) = 50: exactly 2
    said = compare(condition("mine", 410, 30), condition("random policy", 310, 40), tmp_path)
    assert said == "Compared with the random policy, mine is better by 100 ± 50 points."
    said = compare(condition("mine", 210, 30), condition("random policy", 310, 40), tmp_path)
    assert "mine is worse by 100 ± 50 points" in said


def test_less_than_two_standard_errors_are_no_clear_difference(tmp_path: Path):
    said = compare(condition("mine", 409, 30), condition("random policy", 310, 40), tmp_path)
    assert "mine makes no clear difference (99.0 ± 50.0 points)" in said
    said = compare(condition("mine", 0, 0), condition("random policy", 0, 0), tmp_path)
    assert "no clear difference" in said


def test_a_single_episode_is_not_compared(tmp_path: Path):
    said = compare(condition("mine", 900, None), condition("random policy", 0, 1), tmp_path)
    assert "mine cannot be compared" in said


def test_without_a_random_policy_there_is_no_comparison(tmp_path: Path):
    said = compare(condition("a", 1), condition("b", 2), tmp_path)
    assert said == "No random policy was played, so there is no comparison."


def test_random_tasks_are_not_inferred_tasks(tmp_path: Path):
    other = condition("@0 (a new task every 40 steps)", 400.0)
    assert "No inferred task" in compare(other, condition("random policy", 310.0), tmp_path)


# --- what the page says


def test_collapsed_features_are_reported(tmp_path: Path):
    run = new_run(tmp_path / "run", env=GAME)
    train_on_game(run, concentration=0.995)
    assert "φ has collapsed: its concentration is 0.995" in sentences(run)


def test_features_that_have_recovered_are_not_reported_as_collapsed(tmp_path: Path):
    run = new_run(tmp_path / "run", env=GAME)
    train_on_game(run, concentration=0.995)
    append_rows(run.metrics, METRICS, [[4000, 400, 10.0, 0.5, 0.5]])
    assert "collapsed" not in sentences(run)


def test_a_run_without_rewards_names_the_command_that_collects_them(tmp_path: Path):
    run = new_run(tmp_path / "run", env=GAME)
    train_on_game(run)
    words = sentences(run)
    assert f"No rewards have been collected yet. Collect rewards, infer tasks and score them with visr evaluate {run.path}" in words  # noqa: E501  # fmt: skip
    assert "Scores during training" not in words
    assert set(contents(run.report)) == {"index.html", "training.png"}


def test_rewarded_environments_without_a_finished_episode_are_mentioned(tmp_path: Path):
    run = new_run(tmp_path / "run", env=GAME, num_rewarded_envs=2)
    train_on_game(run)
    assert "None of these episodes has ended yet" in sentences(run)


def test_scores_of_an_older_checkpoint_are_marked(run: RunDir):
    write_json(run.phase_two, usual_phase() | {"num_steps": 2000})
    assert "Training has since continued to 3,000 steps. Score it again with" in sentences(run)


def test_other_uses_of_the_rewarded_steps_have_their_own_table(run: RunDir):
    adapted = [condition("fine-tuned", 900.0), condition("from scratch", 200.0)]
    content = {"format": 1, "env": GAME, "num_steps": 3000, "conditions": adapted}
    write_json(run.adapted, content)
    words = sentences(run)
    assert "Other uses of the rewarded steps" in words
    assert "fine-tuned 900 ± 10" in words


def test_another_environment_has_no_human_score_and_no_maps(tmp_path: Path):
    run = new_run(tmp_path / "run", env="CartPole-v1")
    train_on_game(run)
    score_online(run, (-5.0, -3.0, float("nan")))
    unknown = {"human_normalised": None, "at_75": None, "at_100": None}
    conditions = [condition(n, 9.5, None, **unknown) for n in ("env-search", "random policy")]
    content = phase(*conditions, env="CartPole-v1", random_score=None, human_score=None)
    write_json(run.phase_two, content)
    words = sentences(run)
    assert "exist only for grid worlds. In CartPole-v1 a policy is scored by playing" in words
    assert "9.5" in words
    for word in ("Human", "human", "frames)", "Dashed"):
        assert word not in words


def test_hostile_names_of_conditions_and_tasks_stay_text(run: RunDir):
    name = HOSTILE.replace("\ud800", "")
    write_json(run.phase_two, phase(condition(name, 1.0), condition("random policy", 2.0)))
    infer_on_game(run, name=HOSTILE)
    source = read(report.write(run.path))
    page = Reader(source)
    assert not {tag for tag, _ in page.elements} & {"script", "x"}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.words.count("<script>alert(1)</script>") >= 4  # tile, verdict, table, task
    assert not any(invisible in source for invisible in ("\u202e", "\x00", "\x1b"))


def test_a_game_that_diverged_gets_a_report(tmp_path: Path):
    run = new_run(tmp_path / "run", env=GAME, num_rewarded_envs=2)
    columns = ["num_steps", "feature_concentration", "intrinsic_reward", "psi_loss"]
    append_rows(run.metrics, columns, [[s, "nan", "inf", "-inf"] for s in (1000, 2000)])
    append_rows(run.online, ["num_steps", "num_episodes", "mean_return"], [[1000, 1, "nan"]])
    summary = report.write(run.path)
    assert summary["online_score"] is None
    assert "No episode with a score has ended yet" in Reader(read(summary)).sentences


def test_evaluated_tasks_show_asked_returns_and_how_they_were_asked_for(tmp_path: Path):
    run = new_run(tmp_path / "run", env="CartPole-v1")
    prompts = {
        "left": TaskPrompt("expression", "x0 < -0.5"),
        "half": TaskPrompt("goal", "position=0.5"),
        "shown": TaskPrompt("demonstration", "steps.npz"),
        "liked": TaskPrompt("preferences", "4 preferences"),
    }
    for name, prompt in prompts.items():
        Task(name=name, env="CartPole-v1", w=np.array([0.6, 0.8, 0.0]), prompt=prompt).save(
            run.task(name)
        )
    returns = {"left": (93.0, 0.8), "random policy": (25.9, 1.1), "always right": (31.0, 1.2)}
    policies = tuple(
        PolicyReturns(name, Returns.of([asked] * 2), Returns.of([own] * 2), (10, 10))
        for name, (asked, own) in returns.items()
    )
    asked = "the asked reward x0 < -0.5"
    found = EpisodeEvaluation("left", "CartPole-v1", asked, "expression", policies)
    write_json(evaluation_of(run.task("left")), found.to_dict())
    summary = report.write(run.path)
    words = Reader(read(summary)).sentences
    assert "left this task 93.00 ± 0.00 0.80 ± 0.00 2" in words
    assert "random policy 25.90 ± 0.00 1.10" in words
    assert "always right 31.00" in words
    assert "the asked return sums the asked reward x0 < -0.5" in words
    for way in ("the reward x0 < -0.5", "the goal position=0.5", "a demonstration (steps.npz)"):
        assert way in words
    assert "4 tasks inferred, 1 evaluated" in words
    assert "uman" not in words
    assert "left asked return 93.0 random policy25.9 always right31.0" in words  # the headline
    assert "No rewards have been collected yet" not in words
    by_name = {task["name"]: task for task in summary["tasks"]}
    assert by_name["left"]["asked_returns"]["random policy"] == 25.9
    lines = commands.made(reading.run_data(run.path))
    assert f"visr infer {run.path} --reward 'x0 < -0.5'" in lines
    assert f"visr infer {run.path} --goal position=0.5" in lines
    assert not any("shown" in line or "liked" in line for line in lines)


def test_a_file_named_like_an_exact_evaluation_is_ignored(run: RunDir):
    write_json(evaluation_of(run.task("env-regression")), {"mean": 812})
    assert reading.run_data(run.path).tasks[0].evaluation is None


# --- figures


def test_the_running_mean_weighs_episodes_and_drops_old_ones():
    # episodes 20, 20, 10, 0; a window of 30
    rows = {
        "num_steps": np.arange(4.0), "num_episodes": np.array([20.0, 20.0, 10.0, 0.0]),
        "mean_return": np.array([1.0, 4.0, 10.0, np.nan]),
    }  # fmt: skip
    # 1;  (20 * 1 + 20 * 4) / 40;  (20 * 4 + 10 * 10) / 30;  nothing new
    assert scores.smoothed(rows) == pytest.approx([1.0, 2.5, 6.0, 6.0])


def test_a_published_score_far_beyond_the_data_is_not_drawn_to_scale():
    random, human = Published("random", 300, is_near=True), Published("human", 6950)
    assert scores.placed([random, human], [100, 900]) == ([random], [human])
    assert scores.placed([random, human], [100, 5000]) == ([random, human], [])
    far_below = Published("random", -9000, is_near=True)
    assert scores.placed([far_below], [100, 900]) == ([far_below], [])


@pytest.mark.parametrize("count", [1, 24])
def test_any_number_of_conditions_and_any_scores_fit_on_the_page(run: RunDir, count: int):
    extreme = [0.0] * 40 + [-1e12, 1e12]
    lengths = [1] * len(extreme)
    many = [
        condition(f"condition {i}", 0.0, scores=extreme, num_steps=lengths) for i in range(count)
    ]
    write_json(run.phase_two, phase(*many))
    report.write(run.path)
    across, down = size_in_inches(run.report / "phase_two.png", DPI)
    assert 1.8 <= across <= 6.5
    assert 0.7 <= down <= 16.7


def test_the_window_of_the_running_mean_is_that_of_a_score():
    from visr.evaluation import two_phase

    assert scores.WINDOW == two_phase.NUM_TRIALS
