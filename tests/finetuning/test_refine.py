"""Refinement: offline Q-learning on recorded steps, its estimates, and tasks with weights."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

import visr
from visr import config as configuration
from visr import pretraining
from visr.agents.refined import residual_of
from visr.cli import main
from visr.config import presets
from visr.envs.grid import dynamic_programming
from visr.errors import UserError
from visr.finetuning import reward_labels
from visr.finetuning.offline_steps import OfflineSteps
from visr.finetuning.policy_value import POLICIES, FittedEvaluation, PolicyValue, n_step
from visr.finetuning.tabular_q import TableEvaluation
from visr.inference.asked_reward import asked_reward
from visr.networks.residual_values import ResidualValues
from visr.storage.records.task import Task, TaskPrompt
from visr.types import EnvSpec

SMALL = {"num_envs": 8, "unroll_length": 16, "num_updates": 24, "log_every": 4_096}
GRID = configuration.replace(
    presets.get("replay-grid"),
    **{**SMALL, "height": 5, "width": 5, "num_steps": 8_192, "warmup_steps": 2_048},
    checkpoint_every=4_096,
    evaluate_every=8_192,
)
POLE = configuration.replace(
    presets.get("replay-vectors"),
    **{**SMALL, "env": "CartPole-v1", "num_steps": 4_096, "warmup_steps": 512},
    checkpoint_every=4_096,
    recorded_steps=1_000,
)


@pytest.fixture(scope="module")
def grid_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretraining.start(tmp_path_factory.mktemp("refine") / "grid", GRID).path


@pytest.fixture(scope="module")
def pole_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretraining.start(tmp_path_factory.mktemp("refine") / "pole", POLE).path


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates after 20 gradient steps instead of 250."""
    monkeypatch.setattr("visr.finetuning.refine._UPDATES", 20)


@pytest.fixture(name="grid")
def loaded_grid(grid_path: Path) -> visr.Run:
    return visr.load(grid_path)


# ---- results


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
    assert values == sorted(values)
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


# ---- files


def test_a_saved_task_has_the_same_policy(grid: visr.Run, tmp_path: Path):
    task = grid.refine(grid.infer("row > 3"), num_updates=400)
    path = tmp_path / "bottom.json"
    task.save(path)
    again = Task.load(path)
    states = np.arange(25)
    assert grid.policy(again)(states).tolist() == grid.policy(task)(states).tolist()
    assert len(list(tmp_path.glob("*.safetensors"))) == 2  # the policy's weights and the learner's
    grid.infer("row > 3").save(path)  # an instant task leaves no weights behind
    assert not list(tmp_path.glob("*.safetensors"))


def test_lost_or_damaged_weights_are_reported(grid: visr.Run, tmp_path: Path):
    path = tmp_path / "bottom.json"
    grid.refine(grid.infer("row > 3"), num_updates=400).save(path)
    weights = tmp_path / json.loads(path.read_text())["refinement"]["file"]
    content = weights.read_bytes()
    weights.write_bytes(content[:-4] + b"\0\1\2\3")
    with pytest.raises(UserError, match="damaged"):
        Task.load(path)
    weights.unlink()
    with pytest.raises(UserError, match="is missing"):
        Task.load(path)


def test_a_save_that_fails_keeps_the_earlier_task(
    grid: visr.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "bottom.json"
    first = grid.refine(grid.infer("row > 3"), num_updates=400)
    first.save(path)

    def full(*_: object) -> None:
        raise UserError("the disk is full")

    monkeypatch.setattr("visr.storage.records.task.write_json", full)
    with pytest.raises(UserError, match="full"):
        grid.refine(grid.infer("col > 3"), num_updates=400).save(path)
    loaded = Task.load(path).refinement
    assert loaded is not None
    assert first.refinement is not None
    assert all(np.array_equal(loaded.weights[k], v) for k, v in first.refinement.weights.items())


# ---- the command


def test_the_command_refines_and_resumes(grid_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["infer", str(grid_path), "--reward", "row > 2", "--name", "low"]) == 0
    assert main(["refine", str(grid_path), "low", "--num-updates", "20"]) == 0
    assert "refined policy" in capsys.readouterr().out
    assert main(["refine", str(grid_path), "low", "--resume", "--until-done", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["num_updates"] > 20
    assert found["is_done"]
    assert main(["evaluate", str(grid_path), "low-refined", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fraction_of_optimal"] == pytest.approx(1)
    assert main(["play", str(grid_path), "--task", "low-refined", "--max-steps", "5"]) == 0


def test_a_resumed_refinement_continues_with_the_optimiser(pole_path: Path, tmp_path: Path):
    run, path = visr.load(pole_path), tmp_path / "side.json"
    run.refine(run.infer("x0 > 0.1"), num_updates=40).save(path)
    saved = Task.load(path)
    task = run.refine(saved, num_updates=20, resume=True)
    assert task.refinement is not None
    assert task.refinement.num_updates == 60
    assert set(task.refinement.learner["adam.0.step"].ravel()) == {60}
    afresh = run.refine(saved, num_updates=20)
    assert afresh.refinement is not None
    assert set(afresh.refinement.learner["adam.0.step"].ravel()) == {20}
    task.save(path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    (tmp_path / json.loads(path.read_text())["refinement"]["learner_file"]).unlink()
    again = Task.load(path)  # it still acts
    with pytest.raises(UserError, match="refine the task again"):
        run.refine(again, num_updates=20, resume=True)


def test_a_damaged_learner_is_refused(pole_path: Path):
    run = visr.load(pole_path)
    task = run.refine(run.infer("x0 > 0.1"), num_updates=20)
    assert task.refinement is not None
    for learner in ({"q": np.zeros(3)}, {**task.refinement.learner, "rng": np.zeros(3)}):
        changed = dataclasses.replace(task.refinement, learner=learner)
        with pytest.raises(UserError, match="does not fit"):
            run.refine(dataclasses.replace(task, refinement=changed), num_updates=20, resume=True)


def test_nothing_to_resume_is_an_error(grid_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["infer", str(grid_path), "--reward", "col > 2", "--name", "right"]) == 0
    assert main(["refine", str(grid_path), "right", "--resume"]) == 2
    assert "leave out --resume" in capsys.readouterr().err


def test_ctrl_c_keeps_the_best_so_far(pole_path: Path):
    assert main(["infer", str(pole_path), "--reward", "x0 > 0.1", "--name", "side"]) == 0
    command = [sys.executable, "-m", "visr", "refine", str(pole_path), "side", "--seconds", "300"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "refining" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130
    task = visr.load(pole_path).tasks["side-refined"]
    assert task.refinement is not None
    assert task.refinement.num_updates > 0


# ---- parts


def steps_of(states: list[int], actions: list[int], ends: list[bool], size: int) -> OfflineSteps:
    """A walk through one-hot vectors."""
    count = len(actions)
    observation = torch.eye(size)[torch.tensor(states)]
    terminated = torch.tensor(ends)
    follows = torch.arange(count) < count - 1
    return OfflineSteps(
        observation=observation,
        before=torch.arange(count),
        after=torch.arange(count) + 1,
        action=torch.tensor(actions),
        terminated=terminated,
        continues=follows & ~terminated,
        episode=torch.cumsum(terminated.long(), 0) - terminated.long(),
        space=gym.spaces.Box(0, 1, (size,), np.float32),
        source="a test",
    )


def test_two_step_returns_stop_where_they_must():
    # step      0   1   2   3
    # r         1   2   4   8
    # continues .   no  .   no     step 1 ended the episode
    # G_0 = 1 + .5 * 2 = 2, nothing follows     G_1 = 2     G_2 = 4 + .5 * 8 = 8, .25 V     G_3 = 8, .5 V
    steps = steps_of([0, 1, 2, 3, 4], [0, 0, 0, 0], [False, True, False, False], 5)
    reward = torch.tensor([1.0, 2.0, 4.0, 8.0])
    total, discount, rows = n_step(steps, reward, 0.5, 2, steps.continues)
    assert total.tolist() == [2, 2, 8, 8]
    assert discount.tolist() == [0, 0, 0.25, 0.5]
    assert rows.tolist() == [2, 2, 4, 4]


def test_gains_have_the_standard_error_of_episode_means():
    episode = torch.arange(12).repeat_interleave(2)
    gain = torch.arange(12.0).repeat_interleave(2)
    mean, error = PolicyValue(gain, episode).gain_over(PolicyValue(torch.zeros(24), episode))
    assert mean == pytest.approx(5.5)
    assert error == pytest.approx(np.std(np.arange(12), ddof=1) / 12**0.5)


def chain(rng: np.random.Generator, count: int, size: int = 5) -> tuple[OfflineSteps, torch.Tensor]:
    """A random walk: action 1 goes right, 0 left; the reward is 1 in the last state."""
    actions = rng.integers(2, size=count)
    states = [2]
    for action in actions:
        states.append(int(np.clip(states[-1] + 2 * action - 1, 0, size - 1)))
    steps = steps_of(states, actions.tolist(), [False] * count, size)
    return steps, (torch.tensor(states[1:]) == size - 1).float()


@pytest.mark.parametrize("kind", ["table", "network"])
def test_the_values_of_fixed_policies_are_estimated(kind: str):
    # gamma .5, 1 - gamma = .5: always right is worth 1, .5, .25, .125 times 1 from the states 3, 2, 1, 0;
    # always left is worth 0 from the states 0 to 3, and 0 from 4 as well, as it leaves the reward.
    steps, reward = chain(np.random.default_rng(0), 2_000)
    states = steps.observation.argmax(dim=1)
    right = torch.tensor([0.5**3, 0.5**2, 0.5, 1, 1])[states[steps.before]].mean()
    if kind == "table":
        numbered = dataclasses.replace(steps, observation=states, space=gym.spaces.Discrete(5))
        evaluation = TableEvaluation(numbered, reward, 0.5, 2)
    else:
        torch.manual_seed(0)
        spec = EnvSpec(steps.space, 2)
        evaluation = FittedEvaluation(
            *(steps, reward, 0.5, ResidualValues(spec, len(POLICIES))),
            lambda rows: torch.zeros(len(rows), 2),
            torch.Generator().manual_seed(0),
        )
    always = torch.ones(len(evaluation.rows), dtype=torch.int64)
    policies = {"given": 0 * always, "best": always, "candidate": always}
    evaluation.update(500, policies)
    assert evaluation.value("best", always).mean == pytest.approx(float(right), abs=0.05)
    assert evaluation.value("given", 0 * always).mean == pytest.approx(0, abs=0.05)
    gain, error = evaluation.value("best", always).gain_over(evaluation.value("given", 0 * always))
    assert gain > 10 * error
