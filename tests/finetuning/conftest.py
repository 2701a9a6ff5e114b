"""Short runs whose tasks are refined."""

from __future__ import annotations

from pathlib import Path

import pytest

import visr
from visr import config as configuration
from visr import pretraining
from visr.config import presets

SMALL = {"num_envs": 8, "unroll_length": 16, "num_updates": 24, "log_every": 4_096}
GRID = configuration.replace(
    presets.get("replay-grid"),
    **{**SMALL, "height": 5, "width": 5, "num_steps": 8_192, "warmup_steps": 2_048},
    checkpoint_every=4_096,
    evaluate_every=8_192,
    library_steps=0,  # with fitted policies some rewards are solved at once
)
POLE = configuration.replace(
    presets.get("replay-vectors"),
    **{**SMALL, "env": "CartPole-v1", "num_steps": 4_096, "warmup_steps": 512},
    checkpoint_every=4_096,
    recorded_steps=1_000,
)


@pytest.fixture(scope="session")
def grid_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretraining.start(tmp_path_factory.mktemp("refine") / "grid", GRID).path


@pytest.fixture(scope="session")
def pole_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretraining.start(tmp_path_factory.mktemp("refine") / "pole", POLE).path


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates after 20 gradient steps instead of 250."""
    monkeypatch.setattr("visr.finetuning.refine._UPDATES", 20)


@pytest.fixture(name="grid")
def loaded_grid(grid_path: Path) -> visr.Run:
    return visr.load(grid_path)
