"""Refinement: offline Q-learning on recorded steps, its estimates, and how the tasks act."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

import visr
from tests.finetuning.conftest import SMALL
from visr import config as configuration
from visr import pretraining
from visr.agents.refined import residual_of
from visr.commands import refine as command
from visr.config import presets
from visr.envs.grid import dynamic_programming
from visr.errors import UserError
from visr.finetuning import reward_labels
from visr.inference.asked_reward import asked_reward
from visr.networks.residual_values import ResidualValues
from visr.storage.records.task import TaskPrompt
from visr.types import EnvSpec

pytestmark = pytest.mark.usefixtures("short_slices")


def test_refined_grid_policies_are_optimal(grid: visr.Run):
    for reward in ("row > 3", "goal:0,4", "abs(row - col) < 1"):
        instant = grid.infer(reward)
        refined = grid.refine(instant, num_updates=400)
        before, after = (grid.evaluate_exactly(t).fraction_of_optimal for t in (instant, refined))
        assert after == pytest.approx(1, abs=1e-6)
        assert after >= before
        assert refined.refinement is not None
        assert refined.refinement.is_done


def test_the_estimate_is_near_the_exact_value(grid: visr.Run):
    """On the grid every state and action is recorded, and moves are certain."""
    task = grid.refine(grid.infer("row > 3"), num_updates=400)
    steps, world = grid.offline_steps, grid.world
    assert world is not None
    assert task.refinement is not None
    assert task.reward is not None
    optimal = dynamic_programming.optimal_values(world.transitions, task.reward, 0.95)
    at_recorded = optimal[steps.observation[steps.before].numpy()].mean() * (1 - 0.95)
    # the estimate averages over held-out states only
    assert task.refinement.value == pytest.approx(at_recorded, rel=0.1)


def test_the_same_updates_give_the_same_weights(grid: visr.Run, pole_path: Path):
    pole = visr.load(pole_path)
    for run, reward, count in ((grid, "row > 3", 40), (pole, "x0 > 0.1", 40)):
        task = run.infer(reward)
        a, b = (run.refine(task, num_updates=count).refinement for _ in range(2))
        assert a is not None
        assert b is not None
        assert a.value == b.value
        assert a.weights.keys() == b.weights.keys()
        assert all(np.array_equal(a.weights[k], b.weights[k]) for k in a.weights)


def test_a_refined_policy_is_never_worse_by_its_estimate(grid: visr.Run):
    task = grid.infer("col < 2")
    values = [t.refinement.value for t in grid.refining(task) if t.refinement]
    given = next(t.refinement.given for t in grid.refining(task) if t.refinement)
    assert min(np.diff(values)) > -1e-6  # float32
    assert values[0] >= given


def test_a_policy_that_cannot_be_improved_is_kept(grid: visr.Run):
    refined = grid.refine(grid.infer("row > 3"), num_updates=400)
    again = grid.refine(refined, num_updates=40, resume=True)
    assert again.refinement is not None
    assert refined.refinement is not None
    assert again.refinement.num_updates > refined.refinement.num_updates
    assert grid.evaluate_exactly(again).fraction_of_optimal == pytest.approx(1, abs=1e-6)


def test_infer_refines_when_asked(grid: visr.Run):
    task = grid.infer("row > 3", refine=1)
    assert task.refinement is not None
    assert grid.evaluate_exactly(task).fraction_of_optimal == pytest.approx(1, abs=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_refined_task_of_vectors_acts_everywhere(pole_path: Path, tmp_path: Path):
    run = visr.load(pole_path)
    task = run.refine(run.infer("x0 > 0.1"), num_updates=20)
    assert task.refinement is not None
    weights = {"readout.bias": np.array([1e4, 0], np.float32)}  # always the first action
    changed = dataclasses.replace(
        task.refinement, weights=ResidualValuesOf(run).with_weights(weights)
    )
    task = dataclasses.replace(task, refinement=changed)
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
    policy = run.policy(task)
    assert policy(observation) == 0
    assert policy.predict(observation)[0] == 0
    assert run.play(task, num_episodes=1, epsilon=0)[0].num_steps < 15
    scores = run.evaluate_task(task, num_episodes=2, epsilon=0).scores
    assert max(scores) < 15
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    _, lengths = evaluation.evaluate_policy(
        policy, monitor.Monitor(env), n_eval_episodes=2, return_episode_rewards=True
    )
    assert max(lengths) < 15


class ResidualValuesOf:
    """Weights of a residual of a run, some of them replaced."""

    def __init__(self, run: visr.Run) -> None:
        self._residual = ResidualValues(run.agent.spec)

    def with_weights(self, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {k: v.numpy() for k, v in self._residual.state_dict().items()} | weights


def test_onnx_files_hold_the_refined_policy(grid: visr.Run, tmp_path: Path):
    runtime = pytest.importorskip("onnxruntime")
    task = grid.refine(grid.infer("row > 3"), num_updates=400)
    session = runtime.InferenceSession(str(grid.export(task, tmp_path / "policy.onnx")))
    states = np.arange(25)
    (actions,) = session.run(None, {"observation": states})
    assert actions.tolist() == np.asarray(grid.policy(task)(states)).tolist()


@pytest.mark.parametrize("kind", ["grid", "pole"])
def test_packed_models_keep_the_refined_policy(
    kind: str, grid_path: Path, pole_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    run = visr.load({"grid": grid_path, "pole": pole_path}[kind])
    task = run.refine(run.infer({"grid": "row > 3", "pole": "x0 > 0.1"}[kind]), num_updates=400)
    task.save(run.directory.task("packed-task"))
    packed = visr.load(visr.pack(run, tmp_path / "model.safetensors").path)
    again = packed.tasks["packed-task"]
    assert again.refinement is not None
    assert again.refinement.is_refined
    assert task.refinement is not None
    assert all(
        np.array_equal(again.refinement.weights[k], v) for k, v in task.refinement.weights.items()
    )
    states = np.arange(25) if kind == "grid" else np.random.default_rng(0).normal(size=(40, 4))
    assert packed.policy(again)(states).tolist() == run.policy(task)(states).tolist()
    run.directory.task("packed-task").unlink()


def test_finetuning_starts_from_the_refined_policy(grid: visr.Run, tmp_path: Path):
    task = grid.refine(grid.infer("row > 3"), num_updates=400)
    tuned = grid.finetune(task, out=tmp_path / "tuned", num_steps=400, num_envs=4)
    record = json.loads((tmp_path / "tuned" / "finetuned.json").read_text())
    assert record["before"]["fraction_of_optimal"] == pytest.approx(1, abs=1e-6)
    after = tuned.evaluate_exactly(tuned.tasks["task"], gpi=False).fraction_of_optimal
    assert after == pytest.approx(record["after"]["fraction_of_optimal"])


@pytest.fixture(scope="module")
def breakout(tmp_path_factory: pytest.TempPathFactory) -> visr.Run:
    config = configuration.replace(
        presets.get("replay-minatar"),
        **{**SMALL, "env": "MinAtar/Breakout-v1", "num_steps": 4_096, "warmup_steps": 2_048},
        checkpoint_every=4_096,
        recorded_steps=500,
    )
    return visr.load(pretraining.start(tmp_path_factory.mktemp("refine") / "game", config).path)


def test_rewards_of_a_game_are_predicted_from_its_events(breakout: visr.Run):
    asked = asked_reward(
        dataclasses.replace(breakout.skill(0), prompt=TaskPrompt("env", "env")),
        *(breakout.visr, breakout.inference.codec),
    )
    steps = breakout.offline_steps
    labels = reward_labels.of_steps(steps, asked, breakout.visr, breakout.config, 3_000)
    bricks = steps.observations(steps.before)[:, 3].sum(dim=(1, 2), dtype=torch.int64)
    left = steps.observations(steps.after)[:, 3].sum(dim=(1, 2), dtype=torch.int64)
    assert labels.r_squared is not None
    assert labels.r_squared > 0.5
    predicted, broken = labels.reward > 0.5, left == bricks - 1
    assert float((predicted == broken).float().mean()) > 0.99


def test_a_plane_that_does_not_exist_is_refused():
    spec = EnvSpec(gym.spaces.Box(0, 1, (4, 10, 10), np.uint8), 3)
    weights = {k: v.numpy() for k, v in ResidualValues(spec).state_dict().items()}
    with pytest.raises(ValueError, match="plane does not exist"):
        residual_of(spec, {**weights, "trunk.agent_plane": np.array(9)})


# ---- refusals


def test_a_reward_that_was_never_met_is_refused(pole_path: Path):
    run = visr.load(pole_path)
    task = dataclasses.replace(run.skill(0), prompt=TaskPrompt("expression", "x0 > 100"))
    with pytest.raises(UserError, match="at every one of"):
        run.refine(task, num_updates=10)


def test_a_refined_task_of_other_weights_is_refused(grid: visr.Run):
    task = grid.refine(grid.infer("row > 3"), num_updates=40)
    assert task.refinement is not None
    older = dataclasses.replace(task.refinement, run_steps=1)
    with pytest.raises(UserError, match="refine it again"):
        grid.policy(dataclasses.replace(task, refinement=older))
    other = dataclasses.replace(task.refinement, weights={"scale": np.ones((), np.float32)})
    with pytest.raises(UserError, match="refine it again"):
        grid.policy(dataclasses.replace(task, refinement=other))


def test_one_limit_at_a_time(grid: visr.Run):
    with pytest.raises(UserError, match="one of"):
        grid.refine("any", seconds=1, num_updates=2)
    with pytest.raises(UserError, match="seconds"):
        grid.refine("any", seconds=-1)


def test_a_psi_with_memory_is_refused(grid: visr.Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grid.visr.psi, "memory_size", 8)
    with pytest.raises(UserError, match="psi without memory"):
        grid.refine(grid.skill(0), num_updates=1)


def test_narrow_recordings_are_named(grid: visr.Run, tmp_path: Path):
    """The goal was met in 3 steps, and nobody acted as the refined policy does."""
    task = grid.refine(grid.infer("row > 3"), num_updates=20)
    assert task.refinement is not None
    narrow = dataclasses.replace(task.refinement, num_rewarded=3, matching_steps=0)
    said = command.remarks(narrow, grid, tmp_path / "bottom.json")
    assert any("Only 3 of" in line and "--data" in line for line in said)
    assert any("strays from what was recorded" in line for line in said)
    said = command.remarks(task.refinement, grid, tmp_path / "bottom.json")
    assert not any("Only" in line or "strays" in line for line in said)
