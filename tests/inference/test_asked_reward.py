"""The reward that a task was asked for: by kind of prompt, after saving, and in older files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr as library
from visr.envs.episodes import EpisodeSteps
from visr.storage.records.task import Task, TaskPrompt

REACHED = np.array([[-1, 0, 0.1, 0], [2, 0, -0.3, 0]], np.float32)
STEPS = EpisodeSteps(
    np.zeros(2, np.intp), REACHED - 1, np.array([0, 1]), REACHED, np.array([1.0, 1.0], np.float32)
)


def saved(task: Task, tmp_path: Path) -> Task:
    task.save(tmp_path / "task.json")
    return Task.load(tmp_path / "task.json")


def test_an_expression_is_computed_from_each_step_also_after_saving(
    cart: library.Run, tmp_path: Path
):
    task = cart.infer("-abs(position) + action")
    for one in (task, saved(task, tmp_path)):
        asked = cart.asked_reward(one)
        assert asked.kind == "expression"
        assert asked.of(STEPS).tolist() == [-1, -1]  # -1 + 0 and -2 + 1
        assert asked.words == "the asked reward -abs(position) + action"


def test_the_environments_own_reward_is_the_asked_one_for_env(cart: library.Run):
    task = replace(cart.skill(0), prompt=TaskPrompt("env", "env"))
    assert cart.asked_reward(task).kind == "env"
    assert cart.asked_reward(task).of(STEPS).tolist() == [1, 1]


def test_a_function_is_the_asked_reward_until_the_process_ends(cart: library.Run, tmp_path: Path):
    def leftward(before: Any, action: Any, reached: Any) -> Any:
        return before[:, 0] - reached[:, 0] + reached[:, 2]

    task = cart.infer(leftward)
    assert cart.asked_reward(task).kind == "function"
    np.testing.assert_allclose(cart.asked_reward(task).of(STEPS), [-0.9, -1.3], rtol=1e-5)
    assert cart.asked_reward(saved(task, tmp_path)).kind == "features"  # it is not in the file


def test_a_dataset_asks_for_the_reward_that_its_fit_predicts(cart: library.Run, tmp_path: Path):
    recorded = cart.recording()
    rewards = 3 * (recorded.phi.astype(np.float64) @ [0.6, 0.0, -0.8]) + 5
    np.savez(tmp_path / "data.npz", observations=recorded.reached, rewards=rewards)
    task = saved(cart.infer(str(tmp_path / "data.npz"), method="centred"), tmp_path)
    asked = cart.asked_reward(task)
    expected = 3 * (cart.features(REACHED) @ [0.6, 0.0, -0.8]) + 5
    assert asked.kind == "fitted"
    np.testing.assert_allclose(asked.of(STEPS), expected, atol=0.05)


def test_a_direction_asks_for_phi_w(cart: library.Run):
    task = cart.skill([0.0, 1.0, 0.0])
    asked = cart.asked_reward(task)
    assert asked.kind == "features"
    np.testing.assert_allclose(asked.of(STEPS), cart.features(REACHED)[:, 1], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("position < 0", "expression"), ("env-search", "env"), ("my own task", "features")],
)
def test_a_file_of_an_older_version_says_it_by_its_name(cart: library.Run, name: str, kind: str):
    task = cart.skill(0, name)
    assert task.prompt is None
    assert cart.asked_reward(task).kind == kind


def test_cells_are_the_asked_reward_on_the_grid(grid: library.Run, tmp_path: Path):
    task = saved(grid.infer("goal:0,7"), tmp_path)
    reached = np.array([7, 8])
    steps = EpisodeSteps(
        np.zeros(2, np.intp), reached, np.zeros(2, int), reached, np.zeros(2, np.float32)
    )
    assert grid.asked_reward(task).of(steps).tolist() == [1, 0]


def test_the_sum_of_two_tasks_asks_for_the_sum_of_their_expressions(cart: library.Run):
    both = 0.5 * cart.infer("position") - 2 * cart.infer("angle > 0")
    asked = cart.asked_reward(both)
    assert asked.kind == "expression"
    np.testing.assert_allclose(asked.of(STEPS), [-0.5 - 2, 1.0], rtol=1e-6)
