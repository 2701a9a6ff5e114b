"""Shared by all tests: one thread per process, tiny configurations, and a small trained run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

from visr import config as configuration
from visr.config import RunConfig, presets

SLOW_FILES = (
    "test_docs.py",
    "test_static_checks.py",
    "test_golden.py",
    "test_kill_and_resume.py",
    "test_damage_everywhere.py",
    "test_reproduce.py",
    "test_atari_training.py",
    "test_browser.py",
)
"""These start first, so that no process ends long after the other."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one process, and all tests marked `ray` in one process."""
    for item in items:
        group = "ray" if item.get_closest_marker("ray") else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    """Tests with Ray first, those that share a session before those that start clusters of their own."""
    if item.get_closest_marker("ray"):
        return 0 if "ray_session" in getattr(item, "fixturenames", ()) else 1
    return 2 if item.path.name in SLOW_FILES else 3


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Use one thread: several test processes share the cores."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep consents of tests out of the configuration directory of the user who runs them."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("configuration"))


@pytest.fixture(autouse=True)
def module_path_of_children() -> Iterator[None]:
    """Undo what starting Ray sets for the processes that other tests start."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    yield
    if before is None:
        os.environ.pop(name, None)


@pytest.fixture(scope="session")
def _end_of_ray() -> Iterator[None]:
    """End the shared session with the last test, if no test has done so."""
    yield
    import ray

    ray.shutdown()


@pytest.fixture
def ray_session(_end_of_ray: None) -> None:
    """One Ray session on this machine for all tests: starting it takes as long as most of them.

    It has more CPUs than the machine, because no test needs one for itself.
    """
    import ray

    from visr.cluster import session

    if not ray.is_initialized():
        session.start(num_cpus=8)


def tiny(**fields: Any) -> RunConfig:
    """A configuration that trains in about a second."""
    return configuration.replace(presets.get("smoke"), **fields)


@pytest.fixture(name="tiny")
def tiny_fixture() -> Any:
    """The function `tiny`, for tests that change fields."""
    return tiny


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small finished run; tests must not change it."""
    from visr import pretraining

    path = tmp_path_factory.mktemp("trained") / "run"
    pretraining.start(path, tiny())
    return path
