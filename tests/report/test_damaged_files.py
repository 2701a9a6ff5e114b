"""A damaged file of a run is one sentence that names it, and an earlier report stays as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy

from tests.report.made_up_runs import (
    condition,
    contents,
    evaluation,
    evaluation_of,
    game_run,
    infer,
    new_run,
    phase,
    snapshot,
    train,
    usual_phase,
)  # fmt: skip
from visr import config as configuration
from visr import report
from visr.errors import UserError
from visr.storage.files import read_json, write_json
from visr.storage.run_dir import RunDir


def assert_refused(run: RunDir, file: str) -> None:
    """The report is refused with one sentence that names the file; report/ is unchanged."""
    run.report.mkdir()
    (run.report / "index.html").write_text("the earlier report")
    with pytest.raises(UserError, match=file) as error:
        report.write(run.path)
    assert "\n" not in str(error.value)
    assert contents(run.report) == {"index.html": b"the earlier report"}


# --- a grid world


@pytest.fixture
def grid(tmp_path: Path) -> RunDir:
    run = new_run(tmp_path / "run")
    train(run)
    infer(run)
    return run


def snapshot_of(**fields: Any) -> Callable[[RunDir], None]:
    """Write a snapshot of a run with other settings."""

    def write(run: RunDir) -> None:
        other = configuration.replace(run.config(), **fields)
        run.grid_snapshot.write_bytes(safetensors.numpy.save(snapshot(other)))

    return write


def snapshot_without_values(run: RunDir) -> None:
    arrays = snapshot(run.config())
    run.grid_snapshot.write_bytes(safetensors.numpy.save({"phi": arrays["phi"]}))


def task_with(**fields: Any) -> Callable[[RunDir], None]:
    def write(run: RunDir) -> None:
        path = run.task("boxes-7")
        path.write_text(json.dumps(read_json(path) | fields))

    return write


def write_evaluation(content: Any) -> Callable[[RunDir], None]:
    return lambda run: write_json(evaluation_of(run.task("boxes-7")), content)


GRID_DAMAGE: dict[str, tuple[str, Callable[[RunDir], Any]]] = {
    "a snapshot that is cut off": (
        "portrait.safetensors",
        lambda run: run.grid_snapshot.write_bytes(run.grid_snapshot.read_bytes()[:-100]),
    ),
    "an empty snapshot": ("portrait.safetensors", lambda run: run.grid_snapshot.write_bytes(b"")),
    "a snapshot of another grid": ("portrait.safetensors", snapshot_of(height=5)),
    "a snapshot without values": ("portrait.safetensors", snapshot_without_values),
    "metrics that are not numbers": (
        "metrics.csv",
        lambda run: run.metrics.write_text("num_steps,psi_loss\n1,what\n"),
    ),
    "metrics that are not text": (
        "metrics.csv",
        lambda run: run.metrics.write_bytes(b"\xff\xfe\x00\n\x9f\n"),
    ),
    "metrics without steps": ("metrics.csv", lambda run: run.metrics.write_text("psi_loss\n1\n")),
    "a task that is not JSON": ("boxes-7.json", lambda run: run.task("boxes-7").write_text("{")),
    "a task with infinitely many steps": ("boxes-7.json", task_with(num_steps=float("inf"))),
    "a task of another grid": ("boxes-7.json", task_with(reward=[1.0, 0.0])),
    "an unknown action": (
        "boxes-7.evaluation.json",
        write_evaluation(evaluation(24) | {"policy": [4] * 24, "task": "boxes:7"}),
    ),
    "an evaluation of another grid": (
        "boxes-7.evaluation.json",
        write_evaluation(evaluation(25) | {"task": "boxes:7"}),
    ),
    "an evaluation that is a list": ("boxes-7.evaluation.json", write_evaluation([1, 2])),
    "an empty configuration": ("config.json", lambda run: run.config_file.write_text("{}")),
}


@pytest.mark.parametrize("damage", GRID_DAMAGE)
def test_a_damaged_file_of_a_grid_run_is_one_sentence(grid: RunDir, damage: str):
    file, apply = GRID_DAMAGE[damage]
    apply(grid)
    assert_refused(grid, file.replace(".", r"\."))


# --- a game

PHASE_DAMAGE: dict[str, Any] = {
    "not JSON": "{",
    "a list": [1, 2],
    "another format": usual_phase() | {"format": 2},
    "another environment": usual_phase() | {"env": "ALE/Pong-v5"},
    "no conditions": usual_phase() | {"conditions": []},
    "a number as a condition": usual_phase() | {"conditions": [3]},
    "too many conditions": phase(*[condition("a", 1.0)] * 25),
    "a count below 0": usual_phase() | {"num_seen": -1},
    "a count that is text": usual_phase() | {"num_trials": "many"},
    "no scores": phase(condition("a", 1.0, scores=[], num_steps=[])),
    "scores without lengths": phase(condition("a", 1.0, num_steps=[1])),
    "too large scores": phase(condition("a", 1.0, scores=[1.0, 2.0, 1e300])),
    "nested scores": phase(condition("a", 1.0, scores=[[1.0]] * 3)),
    "a negative error": phase(condition("a", 1.0, -1.0)),
    "a threshold that is a number": phase(condition("a", 1.0, at_75=0.5)),
    "no mean": phase({k: v for k, v in condition("a", 1.0).items() if k != "mean"}),
}


@pytest.mark.parametrize("damage", PHASE_DAMAGE)
def test_a_damaged_phase_two_is_one_sentence(tmp_path: Path, damage: str):
    run, content = game_run(tmp_path / "run"), PHASE_DAMAGE[damage]
    run.phase_two.write_text(content if isinstance(content, str) else json.dumps(content))
    assert_refused(run, r"phase_two\.json")


@pytest.mark.parametrize(
    "content",
    [
        "num_steps,mean_return\n1,2\n",
        "num_steps,num_episodes\n1,2\n",
        "num_steps,num_episodes,mean_return\n1,-2,3\n",
        "num_steps,num_episodes,mean_return\n1,2,1e300\n",
        "num_steps,num_episodes,mean_return\n1,what,3\n",
        "num_episodes,mean_return\n2,3\n",
    ],
)
def test_a_damaged_online_csv_is_one_sentence(tmp_path: Path, content: str):
    run = game_run(tmp_path / "run")
    run.online.write_text(content)
    assert_refused(run, r"online\.csv is damaged")
