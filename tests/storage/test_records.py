"""Records of a run: each file is read and written by one class, and read without trust."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from visr.config import GRID, RunConfig
from visr.envs.grid import world
from visr.errors import UserError
from visr.storage import schema
from visr.storage.files import read_json
from visr.storage.records import grid
from visr.storage.records.finetuning import ExactScore, FinetunePlan, FinetuneResult
from visr.storage.records.task import Task
from visr.storage.records.two_phase import Adapted, TwoPhase
from visr.storage.run_dir import RunDir

RESULTS = Path(__file__).parents[2] / "results"

TASK: dict[str, Any] = {
    "format": 1, "name": "goal", "env": "visr/Grid-v0", "w": [0.6, 0.8], "method": "by hand",
    "r_squared": 0.5, "condition_number": None, "standard_error": [0.1, None], "num_steps": 4,
    "num_rewarded": 1, "reward": [0.0, 1.0, 0.0, 0.0],
}  # fmt: skip


def load(tmp_path: Path, content: Any) -> Task:
    (tmp_path / "task.json").write_text(json.dumps(content))
    return Task.load(tmp_path / "task.json")


def test_a_task_is_read_and_written_unchanged(tmp_path: Path):
    task = load(tmp_path, TASK)
    np.testing.assert_array_equal(task.w, [0.6, 0.8])
    np.testing.assert_array_equal(task.standard_error, [0.1, np.inf])
    assert task.condition_number == np.inf
    assert task.to_dict() == TASK | {"prompt": None}  # older files have none
    task.save(tmp_path / "again.json")
    assert Task.load(tmp_path / "again.json").to_dict() == task.to_dict()


@pytest.mark.parametrize(
    "change",
    [
        {"num_steps": float("inf")}, {"num_steps": float("nan")}, {"num_steps": "many"},
        {"num_rewarded": None}, {"w": [1.0, 1.0]}, {"w": []}, {"w": [[0.6, 0.8]]}, {"w": "x"},
        {"w": [float("nan"), 1]}, {"w": [10**400, 0]}, {"w": [1e308, 1e308]}, {"w": None},
        {"standard_error": [0.1]}, {"standard_error": 3}, {"standard_error": ["x", 1]},
        {"r_squared": None}, {"r_squared": float("nan")}, {"r_squared": float("-inf")},
        {"condition_number": "x"}, {"condition_number": 10**400}, {"reward": [1e308] * 4},
        {"reward": [[1.0], [2.0, 3.0]]}, {"reward": {}}, {"format": 2}, {"format": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_task_that_does_not_fit_is_a_user_error_that_names_the_file(
    change: dict[str, Any], tmp_path: Path
):
    with pytest.raises(UserError, match=r"task\.json is (not a task|damaged)"):
        load(tmp_path, TASK | change)


@pytest.mark.parametrize("field", sorted(TASK.keys() - {"reward"}))
def test_a_task_without_one_of_its_fields_is_a_user_error(field: str, tmp_path: Path):
    with pytest.raises(UserError, match=field):
        load(tmp_path, {name: value for name, value in TASK.items() if name != field})


FLOATS = some.floats(allow_subnormal=False)  # an earlier test may have flushed subnormals to zero
json_values = some.recursive(
    some.none() | some.booleans() | some.integers() | FLOATS | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(field=some.sampled_from(sorted(TASK)), value=json_values)
def test_any_json_value_in_a_task_raises_only_user_errors(field: str, value: Any, tmp_path: Path):
    try:
        task = load(tmp_path, TASK | {field: value})
    except UserError:
        return
    assert np.linalg.norm(task.w) == pytest.approx(1)
    assert np.isfinite(task.r_squared)


def test_every_record_in_results_is_read_and_written_unchanged():
    kinds = {"phase_two.json": TwoPhase, "adapted.json": Adapted}
    found = [path for name in kinds for path in sorted(RESULTS.rglob(name))]
    assert found
    for path in found:
        content = read_json(path)
        written = schema.to_dict(kinds[path.name].load(path, content["env"]))
        added = {"rounds", "num_free_steps", "num_rewarded_steps"}  # older files lack them
        assert _without(added, written) == _without(added, content), path


def _without(names: set[str], content: Any) -> Any:
    if isinstance(content, dict):
        return {k: _without(names, v) for k, v in content.items() if k not in names}
    return [_without(names, v) for v in content] if isinstance(content, list | tuple) else content


def test_an_evaluation_has_as_many_actions_as_the_grid():
    assert grid.NUM_ACTIONS == world.NUM_ACTIONS


def test_a_rewarded_phase_of_another_environment_is_refused():
    path = next(RESULTS.rglob("phase_two.json"))
    with pytest.raises(UserError, match="the run's is 'Other-v0'"):
        TwoPhase.load(path, "Other-v0")


@pytest.fixture
def finetuned(tmp_path: Path) -> RunDir:
    run = RunDir.create(tmp_path / "run", RunConfig(env=GRID))
    FinetuneResult(
        env=GRID, task="goal", from_scratch=False, num_steps=160, num_updates=32, seed=0,
        before=ExactScore(0.5, 1.0), after=None,
    ).save(run)  # fmt: skip
    return run


def test_a_result_of_fine_tuning_is_read_and_written_unchanged(finetuned: RunDir):
    content = read_json(finetuned.finetuned)
    assert list(content)[:3] == ["format", "env", "task"]
    assert content["before"] == {"fraction_of_optimal": 0.5, "value": 1.0}
    assert schema.to_dict(FinetuneResult.load(finetuned)) == content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"env": "Taxi-v4"}, "its environment is 'Taxi-v4'"),
        ({"before": None}, "before is not a JSON object"),
        ({"before": {"mean": 1.0, "standard_error": None, "human_normalised": None, "scores": []}},
         "its scores are not those of"),
        ({"after": {"fraction_of_optimal": 1.0}}, "mean is missing"),
    ],
)  # fmt: skip
def test_a_damaged_result_of_fine_tuning_is_a_user_error(
    change: dict[str, Any], words: str, finetuned: RunDir
):
    finetuned.finetuned.write_text(json.dumps(read_json(finetuned.finetuned) | change))
    with pytest.raises(UserError, match=f"finetuned.json is damaged .*{words}"):
        FinetuneResult.load(finetuned)


def test_a_plan_with_wrong_settings_is_a_user_error(tmp_path: Path):
    run = RunDir(tmp_path)
    content = {"format": 1, "settings": {"num_steps": 0}, "saved": [[1.0]], "task": "goal"}
    run.finetune.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"finetune.json is damaged \(num_steps = 0 is too small"):
        FinetunePlan.load(run)
