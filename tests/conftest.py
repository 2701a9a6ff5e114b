"""What tests share: one thread per process, tiny configurations, and a run that was really trained."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

from visr import config as configuration
from visr.config import RunConfig, presets

RAY = ("cluster", "test_docs.py", "test_readme.py", "test_reproduce.py")
"""Only one Ray may run on a machine if tests ask for the one that runs there."""


def starts_ray(place: str) -> bool:
    """Whether a file, or a test by its name, is one of them."""
    return bool(set(RAY) & set(place.partition("::")[0].split("/")))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests share a process (and so its fixtures); all that start Ray share one."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "ray" if starts_ray(nodeid) else super()._split_scope(nodeid)

    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest goes first."""
    items.sort(key=lambda item: not starts_ray(item.nodeid))


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Threads of several test processes would otherwise spin against each other."""
    torch.set_num_threads(1)


def tiny(**fields: Any) -> RunConfig:
    """A configuration that trains in about a second."""
    return configuration.replace(presets.get("smoke"), **fields)


@pytest.fixture(name="tiny")
def tiny_fixture() -> Any:
    """The function `tiny`, for tests that vary it."""
    return tiny


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small finished run; tests must not change it."""
    from visr import pretraining

    path = tmp_path_factory.mktemp("trained") / "run"
    pretraining.start(path, tiny())
    return path
