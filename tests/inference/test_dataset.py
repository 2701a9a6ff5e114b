"""Datasets of observations and rewards from untrusted files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from visr import envs
from visr.agents.visr import Visr
from visr.config import GRID, RunConfig
from visr.envs.spaces import SpaceCodec
from visr.errors import UserError
from visr.inference import dataset
from visr.inference.collect import features
from visr.inference.compare_methods import compare_methods
from visr.training.loop import new_agent


def untrained(tiny: Any, env: str) -> Visr:
    config = tiny(env=env, hidden_sizes=(8, 8), num_features=3)
    agent = new_agent(config)
    assert isinstance(agent, Visr)
    return agent


@pytest.fixture
def agent(tiny: Any) -> Visr:
    return untrained(tiny, "CartPole-v1")


@pytest.fixture
def codec(tiny: Any) -> SpaceCodec:
    return envs.space_codec(tiny(env="CartPole-v1"))


@pytest.fixture
def lake(tiny: Any) -> SpaceCodec:
    return envs.space_codec(tiny(env="FrozenLake-v1"))


def good(count: int = 250) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        "observations": random.normal(size=(count, 4)),
        "rewards": random.integers(0, 3, size=count),
    }


def written(tmp_path: Path, arrays: dict[str, Any], save: Any = np.savez) -> Path:
    save(tmp_path / "data.npz", **arrays)
    return tmp_path / "data.npz"


# --- good ones


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_dataset_becomes_features_and_rewards(
    agent: Visr, codec: SpaceCodec, tmp_path: Path, save: Any
):
    arrays = good()
    path = written(tmp_path, arrays, save)
    found = dataset.read(path, codec).rewarded(agent, path)
    expected = features(agent, arrays["observations"].astype(np.float32))
    assert np.array_equal(found.features, expected)
    assert np.array_equal(found.reward, arrays["rewards"])
    assert found.reward.dtype == np.float64
    assert found.episode.tolist() == [0] * 100 + [1] * 100 + [2] * 50  # so many steps count as one
    assert found.tried is None
    assert compare_methods(found).num_steps == 250


def test_a_dataset_may_name_episodes(codec: SpaceCodec, tmp_path: Path):
    arrays = good(4) | {"episodes": np.array([7, 7, 2, 2], np.uint8)}
    assert dataset.read(written(tmp_path, arrays), codec).episode.tolist() == [7, 7, 2, 2]


def test_a_dataset_may_hold_states(tiny: Any, lake: SpaceCodec, tmp_path: Path):
    arrays = {"observations": np.array([0, 15, 3], np.int32), "rewards": np.array([0.0, 1, 0])}
    agent, path = untrained(tiny, "FrozenLake-v1"), written(tmp_path, arrays)
    found = dataset.read(path, lake).rewarded(agent, path)
    assert np.array_equal(found.features, features(agent, np.array([0, 15, 3])))


# --- bad ones


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rewards": None}, "has no array `rewards`"),
        ({"observations": None}, "has no array `observations`"),
        ({"rewards": np.zeros(3)}, r"other arrays of other lengths \(rewards 3\)"),
        ({"rewards": np.zeros((250, 1))}, "rewards must be one number for every step"),
        ({"rewards": np.float64(1)}, "rewards must be one number for every step"),
        ({"observations": np.zeros((250, 5))}, r"observations of shape \(250, 5\)"),
        ({"observations": np.zeros(250)}, r"observations of shape \(250,\)"),
        ({"observations": np.zeros((250, 4), "U3")}, "other than numbers"),
        ({"rewards": np.zeros(250, complex)}, "rewards must be one number"),
        ({"episodes": np.zeros(3, int)}, "rewards 250, episodes 3"),
        ({"episodes": np.zeros(250)}, "`episodes` must be a whole number"),
        ({"rewards": np.array([None] * 250)}, "not an .npz file of plain arrays"),
        ({"observations": np.array([{}] * 250)}, "not an .npz file of plain arrays"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    agent: Visr, codec: SpaceCodec, tmp_path: Path, change: dict[str, Any], words: str
):
    arrays = {name: array for name, array in (good() | change).items() if array is not None}
    with pytest.raises(UserError, match=words) as refused:
        dataset.read(written(tmp_path, arrays), codec).rewarded(agent, "data.npz")
    assert "\n" not in str(refused.value)


def test_nothing_is_unpickled(codec: SpaceCodec, tmp_path: Path):
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    arrays = good() | {"rewards": np.array([Trap()], dtype=object)}
    with pytest.raises(UserError, match="plain arrays"):
        dataset.read(written(tmp_path, arrays), codec)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "observations", [[0, 16, 3], [0, -1, 3], [0.0, 1.0, 2.0], [True, False, True]]
)
def test_states_that_do_not_exist_are_refused(lake: SpaceCodec, tmp_path: Path, observations: Any):
    arrays = {"observations": np.array(observations), "rewards": np.array([0.0, 1, 0])}
    with pytest.raises(UserError, match="whole numbers from 0 to 15"):
        dataset.read(written(tmp_path, arrays), lake)


def test_observations_with_nan_end_in_one_sentence(codec: SpaceCodec, tmp_path: Path):
    arrays = good()
    arrays["observations"][3, 1] = np.nan
    with pytest.raises(UserError, match="NaN"):
        dataset.read(written(tmp_path, arrays), codec)


def test_a_file_that_is_missing_or_no_zip_ends_in_one_sentence(codec: SpaceCodec, tmp_path: Path):
    with pytest.raises(UserError, match="Cannot read"):
        dataset.read(tmp_path / "nowhere.npz", codec)
    with pytest.raises(UserError, match="Cannot read"):
        dataset.read(tmp_path, codec)
    for content in (b"", b"not a zip", b"PK\x03\x04 almost"):
        (tmp_path / "data.npz").write_bytes(content)
        with pytest.raises(UserError, match=r"is not an \.npz file"):
            dataset.read(tmp_path / "data.npz", codec)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_byte_ends_at_worst_in_one_sentence(codec: SpaceCodec, tmp_path: Path, save: Any):
    path = written(tmp_path, good(40), save)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    refused: list[str] = []
    for place in random.integers(len(whole), size=150):
        spoilt = bytearray(whole)
        spoilt[place] ^= int(random.integers(1, 256))
        path.write_bytes(spoilt)
        try:
            dataset.read(path, codec)
        except UserError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert not any("\n" in sentence for sentence in refused)


def test_an_archive_with_a_password_ends_in_one_sentence(codec: SpaceCodec, tmp_path: Path):
    path = written(tmp_path, good(3))
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        place = -1
        while (place := content.find(mark, place + 1)) >= 0:
            content[place + flags] |= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"is not an \.npz file"):
        dataset.read(path, codec)


def test_a_file_that_would_unpack_to_too_many_bytes_is_not_opened(
    codec: SpaceCodec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = written(tmp_path, {"observations": np.zeros((9_000, 4)), "rewards": np.zeros(9_000)})
    monkeypatch.setattr(
        dataset, "_LARGEST", 300_000
    )  # they are 9,000 * 5 * 8 bytes and two headers

    def opened(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was opened")

    monkeypatch.setattr(zipfile.ZipFile, "open", opened)
    with pytest.raises(UserError, match="would unpack to more than 300,000 bytes"):
        dataset.read(path, codec)


def test_an_array_that_claims_more_than_it_holds_ends_in_one_sentence(
    codec: SpaceCodec, tmp_path: Path
):
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (2**40, 4)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("observations.npy", header.getvalue() + bytes(64))
        archive.writestr("rewards.npy", header.getvalue() + bytes(64))
    with pytest.raises(UserError, match=r"is not an \.npz file"):
        dataset.read(tmp_path / "data.npz", codec)


# --- which observation each step leads to


def steps_of(codec: SpaceCodec, **arrays: Any) -> dataset.StepDataset:
    return dataset.from_arrays("data.npz", {k: np.asarray(v) for k, v in arrays.items()}, codec)


@pytest.fixture(scope="module")
def states() -> SpaceCodec:
    """A codec of the grid: observations are states 0 to 99, actions 0 to 3."""
    return envs.space_codec(RunConfig(GRID))


def test_with_next_observations_every_row_is_a_step(states: SpaceCodec):
    found = steps_of(
        states, observations=[1, 5], next_observations=[2, 6], actions=[0, 3], rewards=[0, 1]
    )
    assert found.before is not None
    assert (found.before.tolist(), found.reached.tolist()) == ([1, 5], [2, 6])
    assert found.action is not None
    assert found.action.tolist() == [0, 3]


def test_one_more_observation_than_rewards_is_one_trajectory(states: SpaceCodec):
    found = steps_of(states, observations=[1, 2, 3], rewards=[0.0, 1.0], actions=[0, 0])
    assert found.before is not None
    assert (found.before.tolist(), found.reached.tolist()) == ([1, 2], [2, 3])
    assert found.reward is not None
    assert found.reward.tolist() == [0, 1]


def test_the_last_step_of_an_episode_is_left_out_without_its_next_observation(states: SpaceCodec):
    # episode 0: 1 -> 2 -> (unknown); episode 1: 7 -> 8 -> (unknown)
    found = steps_of(
        states,
        observations=[1, 2, 7, 8],
        actions=[0, 1, 2, 3],
        rewards=[1, 2, 3, 4],
        terminations=[False, True, False, False],
    )
    assert found.before is not None
    assert (found.before.tolist(), found.reached.tolist()) == ([1, 7], [2, 8])
    assert found.reward is not None
    assert (found.reward.tolist(), found.episode.tolist()) == ([1, 3], [0, 1])


def test_observations_and_rewards_alone_are_the_states_reached(states: SpaceCodec):
    found = steps_of(states, observations=[4, 9], rewards=[0, 1])
    assert found.before is None
    assert found.reached.tolist() == [4, 9]


@pytest.mark.parametrize(
    "arrays",
    [
        {"observations": [1, 2], "rewards": [1, 2, 3, 4]},
        {"observations": [1, 2], "rewards": [1, 2], "actions": [0, 9]},
        {"observations": [1, 2], "rewards": [1, 2], "actions": [0.5, 1]},
        {"observations": [1, 2], "rewards": [1, 2], "terminations": [0.5, 1]},
        {"observations": [1, 200], "rewards": [1, 2]},
        {"observations": [1, 2], "next_observations": [3], "rewards": [1, 2]},
        {"observations": ["a", "b"], "rewards": [1, 2]},
    ],
)
def test_arrays_that_do_not_fit_are_one_sentence(states: SpaceCodec, arrays: dict[str, Any]):
    with pytest.raises(UserError, match=r"data\.npz"):
        steps_of(states, **arrays)


@pytest.mark.parametrize(
    ("name", "offers"), [("dones", "`terminations`"), ("timeouts", "`truncations`")]
)
def test_names_that_other_formats_give_to_ends_are_refused(
    states: SpaceCodec, name: str, offers: str
):
    arrays = {"observations": np.arange(4), "rewards": np.zeros(3), name: np.zeros(3, bool)}
    with pytest.raises(UserError, match=f"an array `{name}`, which is not read; .*{offers}"):
        dataset.from_arrays("a.npz", arrays, states)
