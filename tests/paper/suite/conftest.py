"""Directories with made-up runs, and figures that are drawn fast."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paper.suite.made_up_runs import ATARI, MINATAR, new_run, play
from visr.report import style


@pytest.fixture(autouse=True, scope="session")
def coarse_figures() -> Iterator[None]:
    """Draw figures with few pixels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "DPI", 40)
        yield


@pytest.fixture
def atari(tmp_path: Path) -> Path:
    """VISR and NSQ on two Atari games, two seeds each."""
    root = tmp_path / "atari"
    for game in ATARI:
        for seed in (0, 1):
            base = {"regression": 100.0 + seed, "search": 50.0, "unadapted": 20.0, "random": 0.0}
            play(new_run(root, "visr", game, seed), **base)
            play(new_run(root, "nsq-10m", game, seed), trained=70.0 + seed, random=0.0)
    return root


@pytest.fixture
def minatar(tmp_path: Path) -> Path:
    """VISR and NSQ on two MinAtar games, two seeds each."""
    root = tmp_path / "minatar"
    for game in MINATAR:
        for seed in (0, 1):
            play(new_run(root, "visr", game, seed), regression=6.0, search=4.0, random=1.0)
            play(new_run(root, "nsq-10m", game, seed), trained=11.0, random=1.0)
    return root
