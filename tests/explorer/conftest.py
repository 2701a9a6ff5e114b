"""Runs to explore, one server for a module's tests, and a real browser where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explorer.launching import Launched, serving


@pytest.fixture
def run_path(trained: Path, tmp_path: Path) -> Path:
    """A trained run of one's own, which may be written to."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture(scope="module")
def launched(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    """One server for all tests of a module."""
    run = shutil.copytree(trained, tmp_path_factory.mktemp("launched") / "run")
    with serving(Path(run)) as one:
        yield one
