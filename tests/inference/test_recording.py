"""Recorded reward-free steps: what they hold, how rewards label them, and damaged files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from gymnasium import spaces

import visr as library
from visr import envs
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.envs.gym import GymEnvs
from visr.envs.spaces import SpaceCodec
from visr.errors import UserError
from visr.inference import recording
from visr.inference.collect import features
from visr.inference.recording import Recording
from visr.training.loop import new_agent

KEPT = ("before", "action", "reached", "phi", "episode", "terminated")


def settings(tiny: Any, env: str = "CartPole-v1", **fields: Any) -> RunConfig:
    small = {"hidden_sizes": (8, 8), "num_features": 3, "unroll_length": 8, "recorded_steps": 150}
    return tiny(env=env, **small, **fields)


def untrained(config: RunConfig) -> Visr:
    agent = new_agent(config)
    assert isinstance(agent, Visr)
    return agent


@pytest.fixture
def config(tiny: Any) -> RunConfig:
    return settings(tiny)


@pytest.fixture
def agent(config: RunConfig) -> Visr:
    return untrained(config)


def same(a: Recording, b: Recording) -> bool:
    arrays = all(np.array_equal(getattr(a, name), getattr(b, name)) for name in KEPT)
    return arrays and a.names == b.names


# --- recording


def test_as_many_steps_as_asked_for_each_with_its_next_observation(config: RunConfig, agent: Visr):
    kept = recording.record(agent, config, 150)
    assert kept.before.shape == kept.reached.shape == (150, 4)
    assert kept.action.shape == kept.episode.shape == (150,)
    assert set(kept.action) <= {0, 1}
    assert kept.names == ["position", "velocity", "angle", "angular_velocity"]
    for episode in np.unique(kept.episode):  # a step begins where the last one led
        steps = kept.episode == episode
        assert np.array_equal(kept.before[steps][1:], kept.reached[steps][:-1])
        assert np.abs(kept.before[steps][0]).max() <= 0.05  # where CartPole begins
    # position' = position + 0.02 velocity, as CartPole defines it
    moved = kept.before[:, 0] + 0.02 * kept.before[:, 1]
    assert np.allclose(kept.reached[:, 0], moved, atol=1e-6)
    assert np.allclose(np.linalg.norm(kept.phi, axis=1), 1)
    assert np.allclose(kept.phi, features(agent, kept.reached), atol=1e-6)


def test_the_seed_determines_everything(config: RunConfig, agent: Visr):
    first, again, other = (recording.record(agent, config, 100, seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)


def test_rewards_are_neither_used_nor_kept(
    config: RunConfig, agent: Visr, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    seen = recording.record(agent, config, 100)
    step = GymEnvs.step

    def blinded(self: GymEnvs, actions: Any) -> Any:
        observation, reward, *rest = step(self, actions)
        return observation, np.full_like(reward, np.nan), *rest

    monkeypatch.setattr(GymEnvs, "step", blinded)
    assert same(seen, recording.record(agent, config, 100))
    seen.save(tmp_path / "kept.safetensors")
    arrays = safetensors.numpy.load_file(tmp_path / "kept.safetensors")
    assert set(arrays) == set(KEPT)


def test_discrete_states_can_be_recorded(tiny: Any):
    config = settings(tiny, "FrozenLake-v1")
    kept = recording.record(untrained(config), config, 60)
    assert kept.before.shape == kept.reached.shape == (60,)
    assert kept.names == ["state"]
    assert np.array_equal(
        kept.rewarded("state == 4", envs.space_codec(config)).reward, kept.reached == 4
    )


def test_images_and_very_large_recordings_are_not_kept():
    assert recording.is_possible(spaces.Discrete(500), 10**9)
    assert recording.is_possible(spaces.Box(-1, 1, (4,)), 100_000)
    assert not recording.is_possible(spaces.Box(-1, 1, (4_000,)), 100_000)  # 3.2 GB
    assert not recording.is_possible(spaces.Box(0, 1, (4, 10, 10), np.uint8), 10)


def test_a_recording_says_which_episodes_ended(config: RunConfig, agent: Visr, tmp_path: Path):
    kept = recording.record(agent, config, 600)
    assert kept.terminated is not None
    last = np.append(np.diff(kept.in_order().episode) > 0, True)
    ended = kept.in_order().terminated
    assert ended is not None
    assert ended.any()
    assert not ended[~last].any()
    kept.save(tmp_path / "a.safetensors")
    again = Recording.load(tmp_path / "a.safetensors").terminated
    assert again is not None
    assert (again == kept.terminated).all()
    older = dataclasses.replace(kept, terminated=None)
    older.save(tmp_path / "b.safetensors")
    assert Recording.load(tmp_path / "b.safetensors").terminated is None


# --- asking

SPACE = spaces.Box(-9, 9, (2,))
TWO = SpaceCodec(SPACE, SPACE, np.asarray, np.arange(2), ["x", "y"], ["left", "right"])


@pytest.fixture
def by_hand() -> Recording:
    """Three steps of two numbers, which `TWO` names."""
    before = np.array([[0, 1], [2, 3], [4, 5]], np.float32)
    return Recording(
        before,
        np.array([1, 0, 1]),
        before + 2,
        np.eye(3, dtype=np.float32),
        np.arange(3),
        ["x", "y"],
    )


def test_field_names_mean_the_next_observation_and_before_names_the_observation(by_hand: Recording):
    assert by_hand.rewarded("x", TWO).reward.tolist() == [2, 4, 6]
    assert by_hand.rewarded("y - before_y", TWO).reward.tolist() == [2, 2, 2]
    assert by_hand.rewarded("before_x > 1 and action == 1", TWO).reward.tolist() == [0, 0, 1]
    with pytest.raises(UserError, match="'z' is unknown: known are pi, x, y, before_x"):
        by_hand.rewarded("z > 1", TWO)


def test_an_expression_and_a_function_agree(config: RunConfig, agent: Visr):
    kept = recording.record(agent, config, 100)
    codec = envs.space_codec(config)
    said = kept.rewarded("abs(angle) < 0.05 and before_velocity * action > -0.1", codec).reward

    def wanted(before: Any, action: Any, reached: Any) -> Any:
        return (np.abs(reached[:, 2].astype(float)) < 0.05) & (
            before[:, 1].astype(float) * action > -0.1
        )

    assert 0 < said.sum() < 100
    labelled = kept.rewarded(wanted, codec)
    assert np.array_equal(labelled.reward, said)
    assert labelled.features is kept.phi
    assert labelled.tried is None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (lambda before, action, reached: reached, r"gave shape \(3, 2\) for 3 steps"),
        (lambda before, action, reached: 1.0, r"gave shape \(\) for 3 steps"),
        (lambda before, action, reached: action[:2], r"gave shape \(2,\) for 3 steps"),
        (lambda before: 0, "failed on a batch of steps: .*takes 1 positional argument"),
        (lambda before, action, reached: None, "failed on a batch|gave shape"),
        (lambda before, action, reached: "much", "failed on a batch of steps: .*could not convert"),
        (
            lambda before, action, reached: 1 if reached > 1 else 0,
            "failed on a batch of steps: .*The",
        ),
    ],
)
def test_a_function_with_wrong_arguments_or_results_is_refused(
    by_hand: Recording, wanted: Any, words: str
):
    with pytest.raises(UserError, match=words) as refused:
        by_hand.rewarded(wanted, TWO)
    assert "\n" not in str(refused.value)


# --- the file


def test_a_recording_survives_its_file(config: RunConfig, agent: Visr, tmp_path: Path):
    kept, path = recording.record(agent, config, 100), tmp_path / "kept.safetensors"
    kept.save(path)
    assert same(Recording.load(path), kept)


def damaged(path: Path, fault: str) -> None:
    """Damage a good file."""
    arrays = safetensors.numpy.load_file(path)
    metadata = {"names": '["x", "y"]'}
    if fault == "cut":
        path.write_bytes(path.read_bytes()[:-10])
        return
    if fault == "noise":
        path.write_bytes(b"\xff" * 100)
        return
    if fault == "a missing array":
        del arrays["action"]
    if fault == "an array too many":
        arrays["reward"] = arrays["phi"]
    if fault == "unequal lengths":
        arrays["phi"] = arrays["phi"][:2]
    if fault == "too few names":
        metadata = {"names": '["x"]'}
    if fault == "no names":
        metadata = {}
    if fault == "names that are no list":
        metadata = {"names": "3"}
    if fault == "names that are no JSON":
        metadata = {"names": "["}
    path.write_bytes(safetensors.numpy.save(arrays, metadata=metadata))


@pytest.mark.parametrize(
    "fault",
    [
        *("cut", "noise", "a missing array", "an array too many", "unequal lengths"),
        *("too few names", "no names", "names that are no list", "names that are no JSON"),
    ],
)
def test_a_damaged_file_ends_in_one_sentence(by_hand: Recording, tmp_path: Path, fault: str):
    path = tmp_path / "kept.safetensors"
    by_hand.save(path)
    damaged(path, fault)
    with pytest.raises(
        UserError, match=r"kept\.safetensors is damaged .* recorded again"
    ) as refused:
        Recording.load(path)
    assert "\n" not in str(refused.value)


def test_a_run_records_again_where_its_recording_is_missing(tiny: Any, tmp_path: Path):
    fields: dict[str, Any] = {
        "num_envs": 4,
        "num_actor_groups": 1,
        "batch_size": 2,
        "num_steps": 32,
    }
    config = settings(tiny, **fields)
    from visr import pretraining

    kept = pretraining.start(tmp_path / "run", config).recorded
    before = kept.read_bytes()
    run = library.load(tmp_path / "run")
    assert len(run.recording().action) == 150
    kept.unlink()
    assert len(run.recording().action) == 150
    assert kept.read_bytes() == before  # the last weights, the same seed
    task = run.infer(lambda before, action, reached: reached[:, 2])
    assert (task.name, task.num_steps) == ("<lambda>", 150)


def test_a_run_without_recorded_steps_refuses_expressions(tiny: Any, tmp_path: Path):
    config = settings(tiny, num_envs=4, num_actor_groups=1, batch_size=2, num_steps=32)
    from visr import config as configuration
    from visr import pretraining

    config = configuration.replace(config, recorded_steps=0)
    run = library.Run(pretraining.start(tmp_path / "run", config))
    assert not run.directory.recorded.exists()
    with pytest.raises(UserError, match="No sample of CartPole-v1 was kept"):
        run.infer("angle < 0")


def test_a_recording_of_an_older_checkpoint_is_replaced_and_that_of_a_newer_one_stays(
    tiny: Any, tmp_path: Path
):
    """As after the newest checkpoint could not be read for a while."""
    from visr import pretraining
    from visr.training import checkpoint

    fields: dict[str, Any] = {"num_envs": 4, "num_actor_groups": 1, "batch_size": 2}
    config = settings(tiny, **fields, num_steps=32, checkpoint_every=16)
    run = pretraining.start(tmp_path / "run", config)
    kept, newest = run.recorded.read_bytes(), checkpoint.newest(run)
    whole = newest.read_bytes()

    newest.write_bytes(b"spoilt")
    older = library.load(run.path)
    phi = older.recording().phi  # of its own weights, not of the file's
    assert run.recorded.read_bytes() == kept
    run.recorded.unlink()
    np.testing.assert_array_equal(older.recording().phi, phi)
    assert run.recorded.read_bytes() != kept  # none was there
    again = library.load(run.path)
    assert again.inference.has_recording

    newest.write_bytes(whole)
    loaded = library.load(run.path)
    assert not loaded.inference.has_recording
    loaded.infer(lambda before, action, reached: reached[:, 2])
    assert run.recorded.read_bytes() == kept


def test_a_recording_that_names_no_step_is_used(tiny: Any, tmp_path: Path):
    """As older versions wrote them."""
    config = settings(tiny, num_envs=4)
    recorded = recording.record(untrained(config), config, 60)
    recorded.save(tmp_path / "recorded.safetensors")
    assert Recording.load(tmp_path / "recorded.safetensors").num_steps is None
    assert recording.is_of(tmp_path / "recorded.safetensors", 640)


def test_a_recording_of_other_weights_is_recorded_again(tiny: Any, tmp_path: Path):
    """A newer visr may bring another model with as many training steps under the same name."""
    config = settings(tiny, num_envs=4)
    path, agent = tmp_path / "recorded.safetensors", untrained(config)
    for width in (2, agent.task_size):
        path.unlink(missing_ok=True)
        mine = recording.kept(path, agent, config, 640)
        other = np.zeros((len(mine.phi), width), np.float32)
        dataclasses.replace(mine, phi=other).save(path)
        found = recording.kept(path, agent, config, 640)
        np.testing.assert_array_equal(found.phi, mine.phi)
        np.testing.assert_array_equal(recording.kept(path, agent, config, 640).phi, mine.phi)
