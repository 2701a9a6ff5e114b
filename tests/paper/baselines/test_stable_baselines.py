"""DQN and PPO of Stable-Baselines3 train in visr's environments and are saved as runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.probes import CORRIDOR
from visr import config as configuration
from visr import pretraining
from visr.api import load
from visr.cli import main
from visr.config import RunConfig, presets
from visr.errors import UserError
from visr.paper.baselines import play, sb3
from visr.paper.baselines.sb3 import BaselineVecEnv
from visr.storage.run_dir import RunDir


def tiny(algorithm: str, env: str, **fields: Any) -> RunConfig:
    small = {"num_steps": 2_000, "log_every": 500, "device": "cpu", **fields}
    return configuration.replace(presets.get("classic"), algorithm=algorithm, env=env, **small)


def test_an_ended_episode_resets_in_the_same_step_and_keeps_its_last_observation():
    games = BaselineVecEnv(tiny("dqn", CORRIDOR), 1)
    assert np.asarray(games.reset()).tolist() == [2]
    observation, reward, done, _ = games.step(np.array([1]))
    assert (np.asarray(observation).tolist(), reward.tolist(), done.tolist()) == (
        [3],
        [0.0],
        [False],
    )
    observation, reward, done, info = games.step(np.array([1]))
    assert (np.asarray(observation).tolist(), reward.tolist(), done.tolist()) == (
        [2],
        [1.0],
        [True],
    )
    assert info[0]["terminal_observation"] == 4
    assert not info[0]["TimeLimit.truncated"]
    assert games.returns == [1.0]


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_baseline_learns_the_optimal_actions(algorithm: str, tmp_path: Path):
    config = tiny(algorithm, CORRIDOR, num_steps=6_000)
    pretraining.start(tmp_path / "run", config)
    model = sb3.load(RunDir(tmp_path / "run"), config)
    actions, _ = model.predict(np.array([1, 2, 3]), deterministic=True)
    assert actions.tolist() == [1, 1, 1]  # right, everywhere
    content = play.evaluate(RunDir(tmp_path / "run"), num_trials=4).to_dict()
    trained, random = content["conditions"]
    assert (trained["name"], random["name"]) == ("as trained", "random policy")
    assert trained["mean"] > 0.5
    assert content["num_steps"] == 6_000


def test_dqn_trains_on_minatars_small_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run, env = tmp_path / "run", "MinAtar/Breakout-v1"
    words = [
        "--preset",
        "minatar",
        "--algorithm",
        "dqn",
        "--num-steps",
        "400",
        "--log-every",
        "100",
    ]
    assert main(["pretrain", env, *words, "--out", str(run), "--json"]) == 0
    assert main(["evaluate", str(run), "--episodes", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [len(condition["scores"]) for condition in said["conditions"]] == [2, 2]
    assert (run / "phase_two.json").exists()


def test_a_baseline_infers_no_tasks(tmp_path: Path):
    config = tiny("dqn", CORRIDOR, num_steps=100)
    pretraining.start(tmp_path / "run", config)
    with pytest.raises(UserError, match="trained on one reward"):
        load(tmp_path / "run")
    assert main(["evaluate", str(tmp_path / "run"), "a-task"]) == 2


def test_a_finished_training_is_not_repeated(tmp_path: Path):
    run = RunDir(tmp_path / "run")
    sb3.train(run, tiny("dqn", CORRIDOR, num_steps=200))
    (checkpoint,) = run.checkpoints()
    before = checkpoint.stat().st_mtime_ns
    pretraining.resume(run.path)
    assert checkpoint.stat().st_mtime_ns == before
