"""Rainbow: its target by hand, what it learns where that is known, and a run that a kill does not change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from tests.probes import CORRIDOR
from visr import config as configuration
from visr import pretraining
from visr.cli import main
from visr.config import RunConfig, presets
from visr.errors import Stopped
from visr.paper.baselines import play
from visr.paper.baselines.rainbow import (
    DATA_EFFICIENT,
    HESSEL,
    RainbowConfig,
    rainbow_config,
    scaled,
)
from visr.paper.baselines.rainbow.agent import Rainbow, RainbowLearner, project
from visr.paper.baselines.rainbow.network import DuelingDistribution
from visr.paper.baselines.rainbow.prioritised import PrioritisedBatch
from visr.paper.reproduce import agents
from visr.storage.run_dir import RunDir
from visr.storage.tables import read_rows
from visr.training.driver import Status
from visr.training.replay import NStepBatch
from visr.types import EnvSpec


def tiny(env: str = CORRIDOR, **fields: Any) -> RunConfig:
    small = {"num_steps": 1_000, "log_every": 200, "checkpoint_every": 300, "device": "cpu"}
    small |= {"hidden_sizes": (32,)}
    classic = presets.get("classic")
    return configuration.replace(classic, algorithm="rainbow", env=env, **{**small, **fields})


def test_the_target_is_the_target_networks_distribution_for_the_online_networks_action():
    torch.manual_seed(0)
    network = DuelingDistribution(
        EnvSpec(Discrete(12), 3), "auto", (8,), replace(HESSEL, hidden_size=8)
    )
    atoms, learner = (
        network.atoms,
        RainbowLearner(network, RainbowConfig(target_period=10**9, learning_rate=0.05)),
    )
    seen = torch.arange(12)
    steps = NStepBatch(
        observation=seen,
        action=seen % 3,
        reward=torch.linspace(-1, 1, 12),
        discount=torch.where(seen % 3 == 1, 0.0, 0.9),
        next_observation=seen.flip(0),
    )
    batch = PrioritisedBatch(steps, slots=seen.numpy(), weight=torch.ones(12))
    random = torch.Generator().manual_seed(0)
    for _ in range(20):  # so that the two networks differ
        learner.update(batch, random)
    network.draw_noise(random)
    target = learner._target  # pyright: ignore
    goal = learner._target_distribution(  # pyright: ignore
        steps.next_observation, steps.reward, steps.discount
    )
    disagreements = 0
    for row, following in enumerate(steps.next_observation.tolist()):
        mine = network(torch.tensor([following])).exp()[0] @ atoms
        theirs = target(torch.tensor([following])).exp()[0]
        disagreements += int(mine.argmax() != (theirs @ atoms).argmax())
        expected = project(
            theirs[mine.argmax()][None],
            atoms,
            steps.reward[row : row + 1],
            steps.discount[row : row + 1],
        )
        assert torch.allclose(goal[row], expected[0], atol=1e-6)
    assert disagreements  # otherwise a plain target would pass, too


@pytest.mark.parametrize("name", ["hessel", "data-efficient"])
def test_rainbow_learns_the_optimal_actions_and_their_values(name: str):
    num_steps = 2_000 if name == "hessel" else 800
    config = tiny(num_steps=num_steps, gamma=0.9, rainbow_recipe=name, seed=1)
    agent = Rainbow(config, replace(rainbow_config(config), learning_rate=3e-3))
    for _ in range(num_steps):
        agent.step()
    network = agent.learner.network.eval()
    with torch.no_grad():
        values = network.values(network(torch.arange(5)))
    assert values[1:4].argmax(dim=-1).tolist() == [1, 1, 1]  # right, everywhere
    assert values[2:4, 1].tolist() == pytest.approx([0.9, 1.0], abs=0.15)
    assert np.mean(agent.returns[-50:]) > 0.9
    agent.close()


def test_the_seed_determines_the_weights():
    ends = []
    for seed in (0, 0, 1):
        agent = Rainbow(tiny(seed=seed, num_steps=200))
        for _ in range(200):
            agent.step()
        ends.append(torch.cat([p.flatten() for p in agent.learner.network.parameters()]))
        agent.close()
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


def contents(run: Path) -> dict[str, bytes]:
    """The files of a run that have no clock in them."""
    files = [*run.glob("checkpoints/*"), run / "metrics.csv", run / "online.csv"]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


_TRAIN = """
import sys
import tests.probes
from tests.paper.baselines.test_rainbow import tiny
from visr import pretraining
pretraining.start(sys.argv[1], tiny(num_steps=1_500, log_every=100, checkpoint_every=150))
"""


def test_a_killed_run_resumes_to_the_same_bytes(tmp_path: Path):
    config = tiny(num_steps=1_500, log_every=100, checkpoint_every=150)
    whole = pretraining.start(tmp_path / "whole", config)
    process = subprocess.Popen([sys.executable, "-c", _TRAIN, str(tmp_path / "cut")])
    cut = RunDir(tmp_path / "cut")
    deadline = time.monotonic() + 600
    while len(cut.checkpoints()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < int(cut.checkpoints()[-1].stem) < 1_500
    assert cut.replay_pieces()
    pretraining.resume(cut.path)
    assert contents(cut.path) == contents(whole.path)
    assert not cut.replay_pieces()


def test_a_run_that_is_asked_to_stop_saves_its_work(tmp_path: Path):
    config = tiny(num_steps=500, checkpoint_every=200)

    def stop(status: Status) -> None:
        if status.num_steps >= 300:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped, match=r"saved as of step 300.*visr.resume"):
        pretraining.start(tmp_path / "run", config, stop)
    run = pretraining.resume(tmp_path / "run")
    assert int(run.checkpoints()[-1].stem) == 500


def test_rainbow_refuses_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["--algorithm", "rainbow", "--cluster", "local", "--out", str(tmp_path / "run")]
    assert main(["pretrain", "CartPole-v1", *words]) == 2
    assert "trains in one process" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_command_line_trains_and_evaluates_on_minatar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = str(tmp_path / "run")
    words = ["--preset", "minatar", "--algorithm", "rainbow", "--num-steps", "300"]
    words += ["--log-every", "100", "--out", run, "--json"]
    assert main(["pretrain", "MinAtar/Breakout-v1", *words]) == 0
    assert main(["evaluate", run, "--episodes", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [len(condition["scores"]) for condition in said["conditions"]] == [2, 2]
    assert [row["num_steps"] for row in read_rows(RunDir(run).metrics)][-1] == 300
    assert main(["report", run]) == 0


def test_rainbow_updates_on_atari_images():
    atari = presets.get("atari-small")
    fields = {"env": "ALE/Pong-v5", "algorithm": "rainbow", "num_steps": 40, "device": "cpu"}
    agent = Rainbow(configuration.replace(atari, **fields))
    reports = [agent.step() for _ in range(40)]
    assert agent.learner.num_updates == 10  # every fourth step, from the fourth on
    assert all(np.isfinite(float(report["loss"])) for report in reports if report)
    assert len(agent.memory) == 40
    agent.close()


def test_an_unfinished_run_cannot_be_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = RunDir.create(tmp_path / "run", tiny())
    assert main(["evaluate", str(run.path)]) == 2
    assert "has not finished" in capsys.readouterr().err


def test_an_unknown_environment_leaves_no_run(tmp_path: Path):
    words = ["--algorithm", "rainbow", "--out", str(tmp_path / "run")]
    assert main(["pretrain", "Nothing-v0", *words]) == 2
    assert not (tmp_path / "run").exists()


def test_plans_use_both_published_settings():
    assert agents.named("rainbow-10m").fields == {"algorithm": "rainbow", "num_steps": 10_000_000}
    efficient = agents.named("der-100k").fields
    assert efficient["rainbow_recipe"] == "data-efficient"
    published = scaled(DATA_EFFICIENT, 100_000)
    assert published == DATA_EFFICIENT  # as published, at the length it was published for
    assert scaled(HESSEL, 10_000_000) == HESSEL


def test_a_trained_rainbow_scores_higher_than_random_actions(tmp_path: Path):
    config = tiny(num_steps=600, rainbow_recipe="data-efficient", hidden_sizes=(256,))
    run = pretraining.start(tmp_path / "run", config)
    trained, random = play.evaluate(run, num_trials=10).to_dict()["conditions"]
    assert trained["mean"] >= 0.8 > random["mean"]
