"""Reports of made-up runs without an exact model: games first; nothing is trained or played here."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.test_report import HOSTILE, Reader, contents, new_run, read
from visr import report
from visr.report import commands as recipe
from visr.report import episodes_page, phase_two, scores
from visr.report import read as load
from visr.report.scores import Published
from visr.storage.files import write_json
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir, evaluation_of
from visr.storage.tables import append_rows

GAME = "ALE/MsPacman-v5"  # a random player scores 307.3, a human 6,951.6
STEPS = [1000, 2000, 3000]
METRICS = ["num_steps", "num_updates", "feature_concentration", "intrinsic_reward", "psi_loss"]


def train(run: RunDir, concentration: float = 0.1) -> None:
    """What three rows of training leave behind."""
    append_rows(run.metrics, METRICS, [[s, s / 10, concentration, 0.5, 10.0] for s in STEPS])
    append_rows(run.timing, ["num_steps", "seconds", "steps_per_second"], [[3000, 1.0, 567]])


def play_online(run: RunDir, returns: tuple[float, ...] = (300.0, 500.0, 700.0)) -> None:
    columns = ["num_steps", "num_episodes", "mean_return", "r_squared", "num_rewarded"]
    rows = [[s, 2.0, x, 0.03, 40.0] for s, x in zip(STEPS, returns, strict=True)]
    append_rows(run.online, columns, rows)


def condition(name: str, mean: float, error: float | None = 10.0, **others: Any) -> dict[str, Any]:
    return {
        "name": name, "mean": mean, "standard_error": error, "human_normalised": 7.6, "at_75": False,
        "at_100": None, "r_squared": None, "scores": [mean - 20, mean, mean + 20],
        "num_steps": [600, 700, 800], **others,
    }  # fmt: skip


def phase(*conditions: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "format": 1, "env": GAME, "num_steps": 3000, "num_rewarded_steps": 31_234,
        "num_rewarded_episodes": 50, "num_seen": 1234, "num_trials": 3, "epsilon": 0.05,
        "clip_rewards": True, "random_score": 307.3, "human_score": 6951.6,
        "conditions": list(conditions), **others,
    }  # fmt: skip


def usual_phase() -> dict[str, Any]:
    return phase(
        condition("env-regression", 812.0, r_squared=0.031, at_75=True),
        condition("env-search", 320.0),
        condition("@0 (a new task every 40 steps)", 400.0),
        condition("random policy", 310.0),
    )


def ask(run: RunDir, name: str = "env-regression", file: str = "env-regression") -> None:
    Task(
        name=name, env=run.config().env, w=np.array([0.6, 0.8, 0.0]), method="least squares",
        r_squared=0.031, condition_number=2.0, standard_error=np.zeros(3), num_steps=31_234,
        num_rewarded=1234,
    ).save(run.task(file))  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = new_run(tmp_path / "run", env=GAME, num_rewarded_envs=2, num_envs=34)
    train(run)
    play_online(run)
    write_json(run.phase_two, usual_phase())
    ask(run)
    return run


def words_of(run: RunDir) -> str:
    return Reader(read(report.write(run.path, None))).words


def compare(one: dict[str, Any], other: dict[str, Any], tmp_path: Path) -> str:
    write_json(tmp_path / "phase_two.json", phase(one, other))
    found = phase_two.read(tmp_path / "phase_two.json", GAME)
    assert found is not None
    return episodes_page.verdict(found)


def test_a_game_gets_its_figures_and_its_headline_numbers(run: RunDir):
    summary = report.write(run.path, None)
    assert set(contents(run.report)) == {
        *("index.html", "training.png", "online.png", "phase_two.png")
    }
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["online_score"] == 500  # 2 episodes each of 300, 500, 700
    assert len(summary["phase_two"]) == 4
    assert summary["phase_two"]["env-regression"] == {
        "mean": 812.0, "standard_error": 10.0, "human_normalised": 7.6
    }  # fmt: skip


def test_the_page_tells_the_table_the_online_score_and_the_speed(run: RunDir):
    page = Reader(read(report.write(run.path, None)))
    assert sum(tag == "img" for tag, _ in page.elements) == 3
    for words in (
        *("3,000 steps (12,000 frames)", "812 ± 10", "7.6 %", "reached", "0.031", "567 steps/s"),
        *("@0 (a new task every 40 steps)", "31,234 steps in 50 episodes", "1,234 of these"),
        *("2 of its 34 environments", "6 episodes ended", "2.9 % human-normalised"),
    ):
        assert words in page.words
    for words in ("How near to optimal", "boxes:7", "Fraction of optimal", "cells"):
        assert words not in page.words


def test_the_suggested_commands_fit_a_game(run: RunDir):
    words = words_of(run)
    assert f"visr infer {run.path} --reward env\n" in words
    assert f"visr evaluate {run.path}\n" in words
    assert f"visr play {run.path} --task env-regression --video out.mp4" in words


def test_the_film_is_of_a_task_that_exists(run: RunDir):
    run.task("env-regression").unlink()
    ask(run, name="mine", file="my-own")
    assert "--task my-own " in recipe.play(load.record(run.path))


def test_a_clear_gain_is_called_better_and_a_clear_loss_worse(tmp_path: Path):
    # 100 points at a standard error of sqrt(30^2 + 40^2) = 50: exactly 2
    said = compare(condition("mine", 410, 30), condition("random policy", 310, 40), tmp_path)
    assert said == "Against the random policy, mine is better by 100 ± 50 points."
    said = compare(condition("mine", 210, 30), condition("random policy", 310, 40), tmp_path)
    assert "mine is worse by 100 ± 50 points" in said


def test_less_than_two_standard_errors_are_no_clear_difference(tmp_path: Path):
    said = compare(condition("mine", 409, 30), condition("random policy", 310, 40), tmp_path)
    assert "mine makes no clear difference (99.0 ± 50.0 points)" in said
    said = compare(condition("mine", 0, 0), condition("random policy", 0, 0), tmp_path)
    assert "no clear difference" in said


def test_a_single_episode_is_no_ground_for_a_verdict(tmp_path: Path):
    said = compare(condition("mine", 900, None), condition("random policy", 0, 1), tmp_path)
    assert "cannot be judged" in said


def test_without_a_random_policy_nothing_is_claimed(tmp_path: Path):
    assert "nothing can be said" in compare(condition("a", 1), condition("b", 2), tmp_path)


def test_playing_with_a_new_task_every_unroll_is_not_an_inferred_task(tmp_path: Path):
    other = condition("@0 (a new task every 40 steps)", 400.0)
    assert "No inferred task" in compare(other, condition("random policy", 310.0), tmp_path)


def test_collapsed_features_are_called_so(tmp_path: Path):
    run = new_run(tmp_path / "run", env=GAME)
    train(run, concentration=0.995)
    assert "φ has collapsed: its concentration is 0.995" in words_of(run)


def test_features_that_once_were_alike_have_not_collapsed(tmp_path: Path):
    run = new_run(tmp_path / "run", env=GAME)
    train(run, concentration=0.995)
    append_rows(run.metrics, METRICS, [[4000, 400, 0.5, 0.5, 10.0]])
    assert "collapsed" not in words_of(run)


def test_the_running_mean_weighs_episodes_and_forgets_old_ones():
    # episodes 20, 20, 10, 0; a window of 30
    rows = {
        "num_steps": np.arange(4.0), "num_episodes": np.array([20.0, 20.0, 10.0, 0.0]),
        "mean_return": np.array([1.0, 4.0, 10.0, np.nan]),
    }  # fmt: skip
    # 1;  (20 * 1 + 20 * 4) / 40;  (20 * 4 + 10 * 10) / 30;  nothing new
    assert scores.smoothed(rows) == pytest.approx([1.0, 2.5, 6.0, 6.0])


def test_a_human_far_above_is_named_beside_the_axis_and_a_near_one_drawn():
    random, human = Published("random", 300, is_near=True), Published("human", 6950)
    assert scores.placed([random, human], [100, 900]) == ([random], [human])
    assert scores.placed([random, human], [100, 5000]) == ([random, human], [])
    far_below = Published("random", -9000, is_near=True)
    assert scores.placed([far_below], [100, 900]) == ([far_below], [])


def test_a_run_that_met_no_rewards_yet_is_told_how_to(tmp_path: Path):
    run = new_run(tmp_path / "run", env=GAME)
    train(run)
    words = words_of(run)
    assert f"Rewards have not been met yet. To meet some, infer tasks from them and play each: visr evaluate {run.path}" in words  # noqa: E501  # fmt: skip
    assert "Score while it trained" not in words
    assert set(contents(run.report)) == {"index.html", "training.png"}


def test_rewarded_environments_without_a_finished_episode_are_mentioned(tmp_path: Path):
    run = new_run(tmp_path / "run", env=GAME, num_rewarded_envs=2)
    train(run)
    assert "None of their episodes has ended yet" in words_of(run)


def test_scores_of_younger_weights_are_called_so(run: RunDir):
    write_json(run.phase_two, usual_phase() | {"num_steps": 2000})
    assert "the run has trained on, to 3,000 steps" in words_of(run)


def test_another_environment_has_no_human_and_no_published_scores(tmp_path: Path):
    run = new_run(tmp_path / "run", env="CartPole-v1")
    train(run)
    play_online(run, (-5.0, -3.0, float("nan")))
    unknown = {"human_normalised": None, "at_75": None, "at_100": None}
    conditions = [condition(n, 9.5, None, **unknown) for n in ("env-search", "random policy")]
    content = phase(*conditions, env="CartPole-v1", random_score=None, human_score=None)
    write_json(run.phase_two, content)
    words = words_of(run)
    assert "9.5" in words
    for word in ("Human", "human", "frames)", "Dashed"):
        assert word not in words


def test_the_same_game_gives_the_same_bytes(run: RunDir, tmp_path: Path):
    report.write(run.path, tmp_path / "one")
    report.write(run.path, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_hostile_names_of_conditions_and_tasks_stay_text(run: RunDir):
    name = HOSTILE.replace("\ud800", "")
    write_json(run.phase_two, phase(condition(name, 1.0), condition("random policy", 2.0)))
    ask(run, name=HOSTILE)
    source = read(report.write(run.path, None))
    page = Reader(source)
    assert not {tag for tag, _ in page.elements} & {"script", "x"}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.words.count("<script>alert(1)</script>") >= 4  # tile, verdict, table, task
    assert not any(invisible in source for invisible in ("\u202e", "\x00", "\x1b"))


def test_a_game_that_diverged_still_gets_its_report(tmp_path: Path):
    run = new_run(tmp_path / "run", env=GAME, num_rewarded_envs=2)
    nothing = ["nan", "inf", "-inf"]
    columns = ["num_steps", "feature_concentration", "intrinsic_reward", "psi_loss"]
    append_rows(run.metrics, columns, [[1000, *nothing], [2000, *nothing]])
    append_rows(run.online, ["num_steps", "num_episodes", "mean_return"], [[1000, 1, "nan"]])
    summary = report.write(run.path, None)
    assert summary["online_score"] is None
    assert "No episode with a score has ended yet" in Reader(read(summary)).words


@pytest.mark.parametrize("count", [1, 24])
def test_any_number_of_conditions_and_any_scores_can_be_drawn(run: RunDir, count: int):
    wild = [0.0] * 40 + [-1e12, 1e12]
    many = [condition(f"condition {i}", 0.0, scores=wild, num_steps=wild) for i in range(count)]
    write_json(run.phase_two, phase(*many))
    report.write(run.path, None)
    across, down = struct.unpack(">II", (run.report / "phase_two.png").read_bytes()[16:24])
    assert 400 <= across <= 1400
    assert 150 <= down <= 3600


def test_a_file_named_like_an_exact_evaluation_does_not_hinder(run: RunDir):
    write_json(evaluation_of(run.task("env-regression")), {"mean": 812})
    assert "env-regression" in words_of(run)


def test_a_report_of_a_game_needs_neither_torch_nor_an_emulator(run: RunDir):
    code = (
        "import sys, pathlib, visr.report; visr.report.write(pathlib.Path(sys.argv[1]), None);"
        "print({'torch', 'gymnasium', 'ale_py', 'matplotlib.pyplot'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run.path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_what_the_report_repeats_of_the_rewarded_phase_is_still_true():
    from visr.evaluation import two_phase

    assert phase_two.UNTRAINED == two_phase.UNTRAINED
    assert two_phase.UNADAPTED.startswith(phase_two.UNADAPTED)
    assert scores.WINDOW == two_phase.NUM_TRIALS
