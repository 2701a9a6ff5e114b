"""Runs that tests of prompts share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import visr as library
from tests.conftest import tiny
from visr import pretraining
from visr.storage import packed_models
from visr.storage.run_dir import RunDir


@pytest.fixture(scope="session")
def cart(tmp_path_factory: pytest.TempPathFactory) -> library.Run:
    """A barely trained run of CartPole with 400 recorded steps."""
    fields: dict[str, Any] = {
        "hidden_sizes": (8, 8),
        "num_features": 3,
        "unroll_length": 8,
        "recorded_steps": 400,
        "num_envs": 4,
        "num_actor_groups": 1,
        "batch_size": 2,
        "num_steps": 32,
    }
    path = tmp_path_factory.mktemp("cart") / "run"
    return library.Run(pretraining.start(path, tiny(env="CartPole-v1", **fields)))


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> library.Run:
    """VISR's packed model of the grid; what it writes goes to a directory of the tests."""
    place = RunDir(Path(tmp_path_factory.mktemp("grid")))
    return library.Run(place, model=packed_models.open_model("pretrained:grid-visr"))
