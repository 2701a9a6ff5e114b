"""The demonstration prompt: w from states, w from actions, and an optimal demonstrator on the grid."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import visr as library
from visr.envs.grid import dynamic_programming
from visr.errors import UserError
from visr.inference import demonstration, recording
from visr.storage import packed_models
from visr.storage.run_dir import RunDir

GAMMA = dynamic_programming.GAMMA


def test_the_mode_of_q_is_the_normalised_mean_of_phi(cart: library.Run):
    states = cart.recording().in_order().reached[:9]
    task = cart.infer(demonstration=states, method=demonstration.STATES)
    mean = cart.features(states).mean(axis=0)
    np.testing.assert_allclose(task.w, mean / np.linalg.norm(mean), atol=1e-5)
    assert task.prompt is not None
    assert task.prompt.kind == "demonstration"


def test_the_likeliest_w_explains_the_actions_of_a_known_policy(cart: library.Run):
    skill, states = cart.skill(5), cart.recording().reached
    actions = np.asarray(cart.policy(skill, gpi=False)(states))
    prompt = cart.inference.prompt(demonstration=(states, actions))
    found = cart.inference.compare(prompt).estimates[demonstration.ACTIONS]
    again = np.asarray(cart.policy(cart.skill(found.w), gpi=False)(states))
    assert (again == actions).mean() > 0.9


def test_a_file_and_arrays_mean_the_same(cart: library.Run, tmp_path: Path):
    recorded = cart.recording().in_order()
    states, actions = recorded.before[:8], recorded.action[:8]
    np.savez(tmp_path / "demo.npz", observations=states, actions=actions)
    tasks = [
        cart.infer(demonstration=given, method=demonstration.STATES)
        for given in (tmp_path / "demo.npz", (states, actions))
    ]
    np.testing.assert_allclose(tasks[0].w, tasks[1].w)


def test_an_optimal_episode_on_the_grid_gives_a_policy_that_does_the_same(grid: library.Run):
    fractions = []
    for reward in ("boxes:7", "boxes:3", "goal:2,7", "boxes:1"):
        asked = grid.infer(reward)
        assert asked.reward is not None
        task = grid.infer(demonstration=optimal_episode(grid, asked.reward))
        judged = dataclasses.replace(task, reward=asked.reward)
        fractions.append(grid.evaluate_exactly(judged).fraction_of_optimal)
    assert np.mean(fractions) > 0.9  # the demonstrator's is 1


def optimal_episode(run: library.Run, reward: Any) -> np.ndarray:
    """The states of 39 optimal steps from the lower left corner."""
    assert run.world is not None
    moves, rewards = run.world.transitions, reward[None]
    values = dynamic_programming.optimal_values(moves, rewards, GAMMA)
    policy = dynamic_programming.greedy(moves, rewards, values, GAMMA)[0]
    states = [90]
    for _ in range(38):
        states.append(int(moves[states[-1], policy[states[-1]]]))
    return np.array(states)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((0, 4)), "has no states"),
        (np.zeros((3, 5)), r"observations of shape \(3, 5\)"),
        ((np.zeros((3, 4)), np.array([0, 1, 7])), "from 0 to 1"),
        ((np.zeros((3, 4)), np.array([0])), "other lengths"),
        ("nowhere.npz", "Cannot read"),
    ],
)
def test_what_is_no_demonstration_is_refused_in_one_sentence(
    cart: library.Run, given: Any, words: str
):
    with pytest.raises(UserError, match=words) as refused:
        cart.infer(demonstration=given)
    assert "\n" not in str(refused.value)


def test_equal_states_have_all_of_phi_in_common_however_long_phi_is():
    cart = library.load("pretrained:cartpole")  # |phi| is not 1
    shown = demonstration.Demonstration("still", np.zeros((5, 4), np.float32))
    compared = shown.infer(cart.visr, lambda: pytest.fail("no other states are needed"))
    assert "|mean phi| / mean |phi| = 1.00 over" in compared.words[0]


def test_states_alone_tell_a_hurry_to_the_end(tmp_path: Path):
    """MountainCar: the states differ little from recorded ones; the actions between them tell -1 a step."""
    model = packed_models.open_model("pretrained:mountaincar")
    run = library.Run(RunDir(tmp_path), model=model)
    recorded = recording.record(run.visr, run.config, 4_000)
    run.directory.recorded.parent.mkdir(parents=True, exist_ok=True)
    recording.keep(recorded, run.directory.recorded, run.num_steps)
    env = gymnasium.make("MountainCar-v0")
    states, is_over = [env.reset(seed=0)[0]], False
    while not is_over:
        state, _, terminated, truncated, _ = env.step(2 if states[-1][1] > 0 else 0)
        states.append(state)
        is_over = terminated or truncated
    prompt = run.inference.prompt(demonstration=np.stack(states))
    found = run.inference.compare(prompt)
    assert found.best in (demonstration.CONSTANT, demonstration.PRACTISED)
    assert any("were inferred from recorded steps" in sentence for sentence in found.words)
    task = run.inference.to_task(prompt, found)
    scores = run.evaluate(task, num_episodes=5).policies[0].environment.returns  # pyright: ignore
    assert np.mean(scores) > -150  # the script -128, a random policy -200


def test_a_search_in_many_dimensions_pays_for_what_it_explains():
    grid = library.load("pretrained:grid")
    up = np.arange(95, 4, -10)
    prompt = grid.inference.prompt(demonstration=(up, np.zeros(9, dtype=int)))
    found = grid.inference.compare(prompt)
    assert demonstration.ACTIONS in found.estimates
    assert found.best != demonstration.ACTIONS  # nine steps say little of 104 numbers
