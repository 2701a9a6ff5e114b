"""Every way to choose a task gives one, and Python that gives the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr
from visr import api
from visr.errors import UserError
from visr.explorer.task_requests import Wishes
from visr.explorer.validation import Fields
from visr.inference import mixing


@pytest.fixture
def wishes(run_path: Path) -> Wishes:
    return Wishes(api.load(run_path))


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """A world of vectors with names, briefly trained."""
    out = tmp_path_factory.mktemp("cart") / "run"
    tiny: dict[str, Any] = {
        "num_envs": 8,
        "batch_size": 4,
        "num_rewarded_envs": 0,
        "recorded_steps": 2_000,
    }
    return visr.pretrain("CartPole-v1", out=out, num_steps=2_000, **tiny)


def performed(python: str) -> dict[str, Any]:
    """What the copied program leaves behind."""
    scope: dict[str, Any] = {}
    exec(compile(python, "copied", "exec"), scope)
    return scope


def painted() -> list[float]:
    reward = np.zeros((10, 10))
    reward[2:5, 6:9], reward[0, 0], reward[9, 1:4] = 1, -1, 0.5
    return reward.ravel().tolist()


@pytest.mark.parametrize(
    "wish",
    [
        {"kind": "paint", "reward": painted()},
        {"kind": "random", "seed": 7},
        {"kind": "expression", "text": "row > 5 and col < 3"},
        {"kind": "expression", "text": "boxes:7"},
        {"kind": "direction", "w": [1, 2, 3, -4, 5]},
    ],
    ids=lambda wish: wish["kind"],
)
@pytest.mark.parametrize("gpi", ["true", "false"])
def test_copied_python_makes_the_same_task(wishes: Wishes, wish: dict[str, Any], gpi: str):
    granted = wishes.grant(Fields(wish))
    left = performed(granted.to_dict(wishes.run)["python"][gpi])
    np.testing.assert_array_equal(left["task"].w, granted.task.w)
    assert left["policy"](55) in range(4)


def test_a_saved_task_is_loaded_by_its_name_and_by_nothing_else(wishes: Wishes, tmp_path: Path):
    granted = wishes.grant(Fields({"kind": "paint", "reward": painted()}))
    assert wishes.save(granted.id, "My Task!") == "my-task"
    again = wishes.grant(Fields({"kind": "saved", "name": "my-task"}))
    np.testing.assert_array_equal(again.task.w, granted.task.w)
    left = performed(again.to_dict(wishes.run)["python"]["true"])
    np.testing.assert_array_equal(left["task"].w, granted.task.w)
    granted.task.save(tmp_path / "elsewhere.json")
    for name in ("../../elsewhere", str(tmp_path / "elsewhere"), "my-task.json", "", "."):
        with pytest.raises(UserError, match="keeps no task"):
            wishes.grant(Fields({"kind": "saved", "name": name}))


def test_saving_replaces_nothing(wishes: Wishes):
    first = wishes.grant(Fields({"kind": "random", "seed": 1}))
    second = wishes.grant(Fields({"kind": "random", "seed": 2}))
    wishes.save(first.id, "mine")
    with pytest.raises(UserError, match="`mine` already"):
        wishes.save(second.id, "mine")
    assert wishes.save(second.id, "") == "skill-2"


@pytest.mark.parametrize("name", ["../../../tmp/evil", "/etc/passwd", "..", "a/b\\c", "~root"])
def test_a_task_is_saved_in_the_run_whatever_its_name(wishes: Wishes, run_path: Path, name: str):
    granted = wishes.grant(Fields({"kind": "random", "seed": 1}))
    stem = wishes.save(granted.id, name)
    assert (run_path / "tasks" / f"{stem}.json").is_file()


def test_marked_frames_point_from_bad_to_good(wishes: Wishes):
    good, bad, neither = np.eye(5)[0], np.eye(5)[1], np.eye(5)[2:]
    phi = [good.tolist()] * 3 + [bad.tolist()] * 3 + neither.tolist()
    liked = [1] * 3 + [-1] * 3 + [0] * 3
    task = wishes.grant(Fields({"kind": "marks", "phi": phi, "liked": liked})).task
    assert task.w[0] > 0.5
    assert task.w[1] < -0.5
    assert np.abs(task.w[2:]).max() < 0.2


@pytest.mark.parametrize("liked", [[0, 0], [1, 1], [2, 0], [1]])
def test_marks_must_tell_something(wishes: Wishes, liked: list[int]):
    phi = np.eye(5)[:2].tolist()
    with pytest.raises(UserError):
        wishes.grant(Fields({"kind": "marks", "phi": phi, "liked": liked}))


def test_a_mixture_is_the_sum_of_its_parts(wishes: Wishes):
    a = wishes.grant(Fields({"kind": "random", "seed": 1}))
    b = wishes.grant(Fields({"kind": "expression", "text": "row"}))
    parts = [{"id": a.id, "weight": 0.3}, {"id": b.id, "weight": 0.7}]
    mixed = wishes.grant(Fields({"kind": "mix", "parts": parts}))
    expected = mixing.mix([(a.task, 0.3), (b.task, 0.7)])
    np.testing.assert_array_equal(mixed.task.w, expected.w)
    left = performed(mixed.to_dict(wishes.run)["python"]["false"])
    np.testing.assert_array_equal(left["task"].w, expected.w)


def test_an_expression_over_fields_costs_no_step(cart: api.Run):
    wishes = Wishes(cart)
    granted = wishes.grant(Fields({"kind": "expression", "text": "abs(angle) < 0.05"}))
    left = performed(granted.to_dict(cart)["python"]["true"])
    np.testing.assert_array_equal(left["task"].w, granted.task.w)
    assert granted.words


def test_the_environments_own_reward_is_met_within_a_budget(cart: api.Run):
    wish = {"kind": "environment", "episodes": 4, "steps": 400}
    granted = Wishes(cart).grant(Fields(wish))
    left = performed(granted.to_dict(cart)["python"]["true"])
    np.testing.assert_array_equal(left["task"].w, granted.task.w)
    with pytest.raises(UserError, match="from 100 to 100000"):
        Wishes(cart).grant(Fields({**wish, "steps": 10**9}))


@pytest.mark.parametrize(
    "text", ["angle # .npz", "data.npz", "__import__('os')", "x" * 501, "a\nb"]
)
def test_an_expression_reaches_neither_files_nor_python(cart: api.Run, text: str):
    with pytest.raises(UserError):
        Wishes(cart).grant(Fields({"kind": "expression", "text": text}))


def test_only_so_many_tasks_are_remembered(wishes: Wishes):
    first = wishes.grant(Fields({"kind": "random", "seed": 0}))
    for seed in range(1, 202):
        wishes.grant(Fields({"kind": "random", "seed": seed}))
    with pytest.raises(UserError, match="choose it again"):
        wishes.recall(first.id)
