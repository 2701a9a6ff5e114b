"""Damaged files of runs without an exact model: one sentence each, and an earlier report stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.test_episodes_page import GAME, condition, phase, play_online, train, usual_phase
from tests.report.test_report import contents, new_run
from visr import report
from visr.errors import UserError
from visr.report import read
from visr.storage.files import write_json
from visr.storage.run_dir import RunDir


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = new_run(tmp_path / "run", env=GAME, num_rewarded_envs=2)
    train(run)
    play_online(run)
    write_json(run.phase_two, usual_phase())
    return run


DAMAGE: dict[str, Any] = {
    "not JSON": "{",
    "a list": [1, 2],
    "another format": usual_phase() | {"format": 2},
    "another environment": usual_phase() | {"env": "ALE/Pong-v5"},
    "no conditions": usual_phase() | {"conditions": []},
    "conditions that are none": usual_phase() | {"conditions": [3]},
    "too many conditions": phase(*[condition("a", 1.0)] * 25),
    "a count below 0": usual_phase() | {"num_seen": -1},
    "a count that is none": usual_phase() | {"num_trials": "many"},
    "no scores": phase(condition("a", 1.0, scores=[], num_steps=[])),
    "scores without lengths": phase(condition("a", 1.0, num_steps=[1])),
    "endless scores": phase(condition("a", 1.0, scores=[1.0, 2.0, 1e300])),
    "nested scores": phase(condition("a", 1.0, scores=[[1.0]] * 3)),
    "a negative error": phase(condition("a", 1.0, -1.0)),
    "a threshold that is a number": phase(condition("a", 1.0, at_75=0.5)),
    "no mean": phase({k: v for k, v in condition("a", 1.0).items() if k != "mean"}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_phase_two_is_one_sentence(run: RunDir, damage: str):
    content = DAMAGE[damage]
    run.phase_two.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UserError, match=r"phase_two\.json") as error:
        read.record(run.path)
    assert "\n" not in str(error.value)


def test_an_earlier_report_outlives_a_damaged_phase_two(run: RunDir):
    report.write(run.path, None)
    before = contents(run.report)
    run.phase_two.write_text("{")
    with pytest.raises(UserError):
        report.write(run.path, None)
    assert contents(run.report) == before


@pytest.mark.parametrize(
    "content",
    [
        "num_steps,mean_return\n1,2\n",
        "num_steps,num_episodes\n1,2\n",
        "num_steps,num_episodes,mean_return\n1,-2,3\n",
        "num_steps,num_episodes,mean_return\n1,what,3\n",
        "num_episodes,mean_return\n2,3\n",
    ],
)
def test_a_damaged_online_csv_is_one_sentence(run: RunDir, content: str):
    run.online.write_text(content)
    with pytest.raises(UserError, match=r"online\.csv is damaged") as error:
        read.record(run.path)
    assert "\n" not in str(error.value)
