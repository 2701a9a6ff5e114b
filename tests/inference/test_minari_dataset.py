"""Minari datasets, made here by Minari itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import visr
from visr import envs
from visr.config import RunConfig
from visr.errors import UserError
from visr.inference import dataset

minari = pytest.importorskip("minari")
pytestmark = pytest.mark.filterwarnings("ignore")
NAME = "visr/cartpole-v0"


SCRIPT = """
import gymnasium, minari, numpy as np
from minari.data_collector import EpisodeBuffer
env = gymnasium.make("CartPole-v1")
random, arrays, buffers = np.random.default_rng(0), {}, []
for seed in range(3):
    seen, actions, rewards, ends, cuts = [env.reset(seed=seed)[0]], [], [], [False], [False]
    while not (ends[-1] or cuts[-1]):
        actions.append(int(random.integers(2)))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        seen.append(observation)
        rewards.append(reward)
        ends.append(terminated)
        cuts.append(truncated)
    arrays |= {f"seen{seed}": seen, f"actions{seed}": actions, f"rewards{seed}": rewards}
    buffers.append(EpisodeBuffer(
        id=seed, observations=seen, actions=actions, rewards=rewards,
        terminations=ends[1:], truncations=cuts[1:],
    ))
minari.create_dataset_from_buffers("visr/cartpole-v0", buffer=buffers, env=env, algorithm_name="random")
np.savez("played.npz", **arrays)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory):
    """Three episodes of CartPole with random actions: (observations, actions, rewards) of each."""
    place = tmp_path_factory.mktemp("minari")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(place / "datasets"))
        # a process of its own, because Minari leaves a temporary directory to the garbage collector
        subprocess.run([sys.executable, "-c", SCRIPT], cwd=place, check=True, capture_output=True)
        played = np.load(place / "played.npz")
        yield [
            tuple(played[f"{name}{i}"] for name in ("seen", "actions", "rewards")) for i in range(3)
        ]


def test_every_step_leads_from_its_observation_to_the_next(made: list):
    steps = dataset.read(f"minari:{NAME}", envs.space_codec(RunConfig("CartPole-v1")))
    before = np.concatenate([seen[:-1] for seen, _, _ in made])
    reached = np.concatenate([seen[1:] for seen, _, _ in made])
    np.testing.assert_array_equal(steps.before, before)
    np.testing.assert_array_equal(steps.reached, reached)
    np.testing.assert_array_equal(steps.action, np.concatenate([a for _, a, _ in made]))
    np.testing.assert_array_equal(steps.reward, np.concatenate([r for _, _, r in made]))
    lengths = [len(actions) for _, actions, _ in made]
    np.testing.assert_array_equal(np.bincount(steps.episode), lengths)
    np.testing.assert_array_equal(np.flatnonzero(steps.terminated), np.cumsum(lengths) - 1)


def test_a_dataset_of_another_environment_is_refused(made: list):
    with pytest.raises(UserError, match="observations"):
        dataset.read(f"minari:{NAME}", envs.space_codec(RunConfig("Acrobot-v1")))


def test_an_unknown_dataset_is_one_sentence(tmp_path: Path, made: list):
    with pytest.raises(UserError, match="minari download no/such-v0"):
        dataset.read("minari:no/such-v0", envs.space_codec(RunConfig("CartPole-v1")))


def test_the_replay_learner_takes_spaces_and_steps_from_minari(made: list, tmp_path: Path):
    run = visr.pretrain(dataset=f"minari:{NAME}", out=tmp_path / "run", num_updates=4)
    assert run.config.env == "dataset/vectors-4/actions-2"
    recorded = run.recording()
    assert len(recorded.action) == sum(len(actions) for _, actions, _ in made)
    assert run.infer(f"minari:{NAME}").num_steps == len(recorded.action)
    with pytest.raises(UserError, match="Cannot read the Minari dataset"):
        visr.pretrain(dataset="minari:visr/none-v0", out=tmp_path / "other")
