"""The goal prompt: what is understood as a goal, its closeness, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr as library
from visr.errors import UserError
from visr.inference import goal


def test_the_mode_of_q_is_phi_of_the_goal(cart: library.Run):
    state = np.array([0.1, 0, -0.05, 0], np.float32)
    task = cart.infer(goal=state, method=goal.METHOD)
    np.testing.assert_allclose(task.w, cart.features(state[None])[0], atol=1e-5)


def test_closeness_is_one_at_the_goal_and_a_half_at_its_width(cart: library.Run):
    recorded = cart.recording()
    task = cart.infer(goal="position=0.25")
    assert task.prompt is not None
    width = 0.5 * recorded.reached[:, 0].std()
    np.testing.assert_allclose(task.prompt.data["width"], [width], rtol=1e-5)
    steps = recorded.steps()
    at = np.tile(recorded.reached[:1], (2, 1))
    at[:, 0] = [0.25, 0.25 + width]
    steps = type(steps)(np.zeros(2, np.intp), at, np.zeros(2, int), at, np.zeros(2, np.float32))
    np.testing.assert_allclose(cart.asked_reward(task).of(steps), [1, 0.5], atol=1e-4)


def test_a_file_a_step_and_an_array_mean_the_same_observation(cart: library.Run, tmp_path: Path):
    state = cart.recording().in_order().reached[17]
    np.save(tmp_path / "goal.npy", state)
    tasks = [cart.infer(goal=g) for g in (state, "step:17", str(tmp_path / "goal.npy"))]
    for task in tasks[1:]:
        np.testing.assert_allclose(task.w, tasks[0].w)


def test_a_cell_of_the_grid_is_the_goal_and_has_its_exact_reward(grid: library.Run):
    task = grid.infer(goal="2,7")
    assert task.reward is not None
    assert np.flatnonzero(task.reward).tolist() == [27]
    np.testing.assert_allclose(grid.infer(goal=27).w, task.w)
    assert grid.evaluate_exactly(task).fraction_of_optimal > 0.8


def test_a_goal_far_from_everything_recorded_is_called_a_guess(cart: library.Run):
    prompt = cart.inference.prompt(goal="position=1000")
    assert "so this is a guess" in " ".join(cart.inference.compare(prompt).words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("height=3", "'height', which is no number of an observation: position"),
        ("position", "Cannot read the goal 'position'"),
        ("position=nan", "Cannot read the goal"),
        ("", "Cannot read the goal"),
        ("step:99999", "steps go from 0 to 399"),
        (np.zeros(3), "needs"),
        (np.zeros((2, 4)), "2 of them"),
        (np.full(4, np.nan), "NaN"),
        ("nowhere.npy", "does not exist"),
    ],
)
def test_what_is_no_goal_is_refused_in_one_sentence(cart: library.Run, given: Any, words: str):
    with pytest.raises(UserError, match=words) as refused:
        cart.infer(goal=given)
    assert "\n" not in str(refused.value)


def test_a_prompt_is_given_in_one_way(cart: library.Run):
    with pytest.raises(UserError, match="in one way"):
        cart.infer("position", goal="position=1")
    with pytest.raises(UserError, match="in one way"):
        cart.infer()
