"""The answer to a painted reward equals that of the Python API."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import tiny
from tests.explorer.launching import untrained
from visr import api
from visr.errors import UserError
from visr.explorer import painting


@pytest.fixture(scope="module")
def run(trained: Path) -> api.Run:
    return api.load(trained)


@pytest.fixture
def reward() -> np.ndarray:
    values = np.zeros(100)
    values[[22, 23, 32, 33]], values[70] = 1.0, -1.0
    return values


@pytest.mark.parametrize("gpi", [False, True])
def test_a_painted_reward_gives_what_infer_and_evaluate_give(run: api.Run, reward, gpi: bool):
    task = painting.infer(run, reward)
    answer = painting.evaluate(run, task, gpi)
    expected = run.infer(reward)
    exactly = run.evaluate_exactly(expected, gpi=gpi)
    np.testing.assert_array_equal(task.w, expected.w)
    assert answer["fraction_of_optimal"] == exactly.fraction_of_optimal
    assert answer["policy"] == exactly.policy.tolist()
    np.testing.assert_allclose(answer["represented"], exactly.represented_reward, rtol=1e-4)
    np.testing.assert_allclose(answer["values"], exactly.values, rtol=1e-4)


def test_visits_count_the_start_and_forty_moves(run: api.Run, reward):
    answer = painting.evaluate(run, painting.infer(run, reward), False)
    assert sum(answer["visits"]) == pytest.approx(41, rel=1e-3)


def test_estimated_values_are_the_maximum_of_psi_times_w(run: api.Run, reward):
    task = painting.infer(run, reward)
    psi = run.successor_features(np.arange(100), task.w)
    best = (psi @ task.w).max(axis=1)
    np.testing.assert_allclose(painting.evaluate(run, task, False)["believed"], best, rtol=1e-3)


def test_maps_of_phi_hold_a_row_for_every_component(run: api.Run):
    maps = np.array(painting.features(run))
    np.testing.assert_allclose(maps.T, run.features(np.arange(100)), atol=1e-4)


def test_presets_equal_those_of_the_command_line(run: api.Run):
    assert run.world is not None
    boxes = painting.preset(run, "boxes:7")
    np.testing.assert_array_equal(boxes, run.infer("boxes:7").reward)
    assert painting.preset(run, "goal:2,3").argmax() == 23
    assert painting.preset(run, "row > 5").sum() == 40


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_a_preset_never_reads_a_file(run: api.Run, tmp_path: Path, suffix: str, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt("secret.csv", np.eye(10), delimiter=",")
    np.save("secret.npy", np.eye(10))
    for text in (f"secret.{suffix}", f"{tmp_path}/secret.{suffix}", f"goal:secret.{suffix}"):
        with pytest.raises(UserError):
            painting.preset(run, text)
    # a comment that ends like a file's name is a comment
    assert painting.preset(run, f"row # .{suffix}").max() == 9


def test_a_grid_that_is_too_large_cannot_be_painted(tmp_path: Path):
    large = api.load(untrained(tmp_path / "large", tiny(height=65, width=64)))
    with pytest.raises(UserError, match="4,160 cells"):
        painting.world(large)
