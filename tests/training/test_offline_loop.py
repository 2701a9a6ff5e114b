"""The replay learner on a dataset: no environment, the same run after a stop, and good policies."""

import hashlib
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

import visr
from visr import cli
from visr.config import GridConfig
from visr.envs import dataset_spaces
from visr.envs.grid import dynamic_programming
from visr.envs.grid.world import GridWorld
from visr.errors import UserError
from visr.inference import dataset_unrolls
from visr.inference.dataset import from_arrays
from visr.training.driver import Status

SIZE = 5
SMALL: dict[str, Any] = {"num_features": 32, "num_updates": 500, "checkpoint_every": 6_400}


def random_steps(env: gymnasium.Env, count: int) -> dict[str, NDArray]:
    """Steps of uniformly random actions; every row has its next observation."""
    rng, rows = np.random.default_rng(0), []
    seen = env.reset(seed=0)[0]
    for _ in range(count):
        action = int(rng.integers(env.action_space.n))  # pyright: ignore
        after, reward, terminated, truncated, _ = env.step(action)
        rows.append((seen, action, float(reward), terminated, truncated, after))
        seen = env.reset()[0] if terminated or truncated else after
    names = ("observations", "actions", "rewards", "terminations", "truncations")
    columns = map(np.array, zip(*rows, strict=True))
    return dict(zip((*names, "next_observations"), columns, strict=True))


@pytest.fixture(scope="module")
def grid_steps() -> dict[str, NDArray]:
    env = gymnasium.make("visr/Grid-v0", height=SIZE, width=SIZE)
    steps = random_steps(env, 4_000)
    steps["rewards"] = (steps["next_observations"] == 7).astype(float)  # row 1, column 2
    return steps


@pytest.fixture(scope="module")
def grid_run(grid_steps: dict, tmp_path_factory: pytest.TempPathFactory) -> visr.Run:
    place = tmp_path_factory.mktemp("offline")
    np.savez(place / "grid.npz", **grid_steps)
    return visr.pretrain(dataset=place / "grid.npz", out=place / "run", **SMALL)


def test_spaces_come_from_the_data(grid_run: visr.Run):
    assert grid_run.config.env == f"dataset/states-{SIZE * SIZE}/actions-4"
    assert grid_run.num_steps == 500 * 32  # recorded steps that updates drew


def fraction_of_optimal(policy: visr.Policy, reward: NDArray) -> float:
    """Exact, in the grid that the steps come from; the policy knows only its dataset."""
    world = GridWorld.from_config(GridConfig(SIZE, SIZE))
    actions = np.asarray(policy(np.arange(world.num_states)))
    moves, gamma = world.transitions, 0.95
    best = dynamic_programming.optimal_values(moves, reward, gamma)
    mine = dynamic_programming.policy_values(moves, actions, reward, gamma)
    random = dynamic_programming.random_values(moves, reward, gamma)
    return float((mine - random).mean() / (best - random).mean())


def test_rewards_of_the_dataset_give_a_policy_near_the_optimum(grid_run: visr.Run):
    task = grid_run.infer(grid_run.path.parent / "grid.npz")
    reward = (np.arange(SIZE * SIZE) == 7).astype(float)
    assert fraction_of_optimal(grid_run.policy(task), reward) > 0.95


def test_expressions_and_goals_use_the_recorded_steps(grid_run: visr.Run):
    last = (np.arange(SIZE * SIZE) >= 20).astype(float)
    expressed = grid_run.policy(grid_run.infer("state >= 20"))
    assert fraction_of_optimal(expressed, last) > 0.95
    corner = (np.arange(SIZE * SIZE) == 24).astype(float)
    assert fraction_of_optimal(grid_run.policy(grid_run.infer(goal="24")), corner) > 0.9


def test_playing_needs_an_environment_and_says_so(grid_run: visr.Run):
    task = grid_run.infer("state >= 20")
    for act in (grid_run.play, grid_run.evaluate):
        with pytest.raises(UserError, match="has no environment to step in; name one when"):
            act(task)
    with pytest.raises(UserError, match="its observations are arrays of shape"):
        visr.load(grid_run.path, env="CartPole-v1")


def test_a_task_is_exported_without_an_environment(grid_run: visr.Run, tmp_path: Path):
    pytest.importorskip("onnx")
    assert grid_run.export(grid_run.infer("state >= 20"), tmp_path / "a.onnx").stat().st_size > 0


def test_with_an_environment_the_exact_fractions_are_computed(grid_steps: dict, tmp_path: Path):
    np.savez(tmp_path / "grid.npz", **grid_steps)
    size: dict[str, Any] = {"height": SIZE, "width": SIZE}
    run = visr.pretrain(
        "visr/Grid-v0", dataset=tmp_path / "grid.npz", out=tmp_path / "run", **SMALL, **size
    )
    assert run.evaluate(run.infer("goal:0,4")).fraction_of_optimal > 0.95  # pyright: ignore
    with pytest.raises(UserError, match="shape"):
        visr.pretrain("CartPole-v1", dataset=tmp_path / "grid.npz", out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def files(path: Path) -> dict[str, str]:
    """The content of all files but clocks and TensorBoard's, which hold times."""
    kept = [p for p in sorted(path.rglob("*")) if p.is_file() and p.name != "timing.csv"]
    kept = [p for p in kept if "tfevents" not in p.name]
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in kept}


def test_a_stopped_run_resumes_to_the_same_bytes_without_its_dataset(
    grid_steps: dict, tmp_path: Path
):
    data = tmp_path / "grid.npz"
    np.savez(data, **grid_steps)
    fields: dict[str, Any] = {**SMALL, "num_updates": 250, "dataset": data}
    visr.pretrain(out=tmp_path / "whole", **fields)

    class Interrupt(Exception):
        pass

    def stop(status: Status) -> None:
        if status.num_steps >= 7_000:
            raise Interrupt

    with pytest.raises(Interrupt):
        visr.pretrain(out=tmp_path / "stopped", observe=stop, **fields)
    data.unlink()
    visr.resume(tmp_path / "stopped")
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


def test_a_run_is_extended_by_more_updates(grid_steps: dict, tmp_path: Path):
    np.savez(tmp_path / "grid.npz", **grid_steps)
    fields: dict[str, Any] = {**SMALL, "num_updates": 50, "dataset": tmp_path / "grid.npz"}
    visr.pretrain(out=tmp_path / "run", **fields)
    longer = visr.resume(tmp_path / "run", num_steps=3_200)
    assert longer.num_steps == 3_200
    assert longer.config.replay.num_updates == 100


def test_cartpole_learns_from_a_dataset_and_is_played_later(tmp_path: Path):
    steps = random_steps(gymnasium.make("CartPole-v1"), 2_000)
    np.savez(tmp_path / "pole.npz", allow_pickle=False, **steps)
    run = visr.pretrain(dataset=tmp_path / "pole.npz", out=tmp_path / "run", num_updates=60)
    assert run.config.env == "dataset/vectors-4/actions-2"
    task = run.infer("abs(x2) < 0.05", name="upright")
    with_env = visr.load(run.path, env="CartPole-v1")
    found = with_env.evaluate_episodes(task, num_episodes=2)
    assert found.env == "CartPole-v1"
    assert found.asked.mean > 0


def test_the_command_line_learns_from_a_dataset(
    grid_steps: dict, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    np.savez(tmp_path / "grid.npz", **grid_steps)
    words = ["pretrain", "--dataset", str(tmp_path / "grid.npz"), "--algorithm", "replay"]
    assert cli.main([*words, "--num-updates", "10", "--out", str(tmp_path / "run")]) == 0
    assert cli.main([*words, "--num-steps", "10", "--out", str(tmp_path / "other")]) == 2
    assert "num_updates says how long training is" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path / "run")]) == 0
    assert cli.main(["infer", str(tmp_path / "run"), "--goal", "3", "--name", "three"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"visr evaluate {tmp_path / 'run'} three --env ENVIRONMENT" in said


def test_steps_become_trajectories_with_a_reset_after_each():
    seen = np.arange(12).reshape(6, 2)
    arrays = {
        "observations": seen[:, 0],
        "next_observations": seen[:, 1],
        "actions": np.zeros(6, dtype=np.int64),
        "terminations": np.array([0, 0, 0, 0, 0, 1], dtype=bool),
    }
    arrays["observations"][3] = arrays["next_observations"][2]  # step 3 continues step 2
    codec = dataset_spaces.codec("dataset/states-12/actions-2")
    unroll = dataset_unrolls.as_unrolls(from_arrays("x", arrays, codec), length=4, task_size=3)
    # 5 trajectories (one of them with two steps) take 6 + 5 rows: 3 unrolls of 4 steps
    assert unroll.action.shape == (4, 3)
    rows = unroll.observation[:-1].T.flatten()[:11].tolist()
    assert rows == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
    resets = unroll.is_reset.T.flatten()[:11].long().tolist()
    assert resets == [0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1]
    assert int(unroll.terminated.sum()) == 1
    assert int(unroll.truncated.sum()) == 4
    assert (unroll.observation[-1, :-1] == unroll.observation[0, 1:]).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"actions": None}, "has no array `actions`"),
        ({"actions": np.full((4_000, 1), 0.5)}, "actions must be whole numbers from 0"),
        ({"actions": np.zeros(4_000, dtype=np.int64)}, "has 1 different actions"),
        ({"observations": np.zeros((4_000, 2, 2, 2))}, "they must be states"),
        ({"observations": np.full(4_000, -1)}, "must be at least 0"),
        ({"next_observations": None, "truncations": None, "terminations": None}, None),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(
    grid_steps: dict, tmp_path: Path, change: dict, sentence: str | None
):
    arrays = {k: v for k, v in {**grid_steps, **change}.items() if v is not None}
    np.savez(tmp_path / "a.npz", **arrays)
    if sentence is None:  # one trajectory: rows follow each other
        assert dataset_unrolls.dataset_id(str(tmp_path / "a.npz")).startswith("dataset/states-25")
        return
    with pytest.raises(UserError, match=sentence):
        visr.pretrain(dataset=tmp_path / "a.npz", out=tmp_path / "run", num_updates=10)
    assert not (tmp_path / "run").exists()


def test_only_the_replay_learner_takes_a_dataset(tmp_path: Path, grid_steps: dict):
    np.savez(tmp_path / "a.npz", **grid_steps)
    with pytest.raises(UserError, match="learns from steps of its own"):
        visr.pretrain(dataset=tmp_path / "a.npz", algorithm="visr")
    with pytest.raises(UserError, match="names only the spaces of a dataset"):
        visr.pretrain("dataset/states-4/actions-2", algorithm="replay")
