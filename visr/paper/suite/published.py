"""Published figures to stand beside ours; `data/README.md` names their sources."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from visr import atari_games
from visr.atari_games import Subset


@dataclass(frozen=True)
class PaperRow:
    """A line of the paper's table for one set of games, its figures as printed; empty where it has a dash."""

    algorithm: str
    interaction: str
    subset: str
    median: str
    median_std: str
    """`unknown(?)` where the paper prints a question mark."""
    mean: str
    mean_std: str
    n_above_random: str
    n_above_human: str
    section: str
    bold_in_table1: str
    """Names of the columns set bold in Table 1, by semicolons."""

    @property
    def name(self) -> str:
        """As in the paper's first column."""
        return f"{self.algorithm} @{self.interaction}"


@dataclass(frozen=True)
class Scores:
    """One algorithm's published scores, game by game."""

    algorithm: str
    interaction: str
    unit: str
    by_game: dict[str, float]

    def normalised(self, subset: Subset) -> dict[str, float]:
        """Human-normalised, of those games of the subset that it has."""
        return {
            game.name: atari_games.human_normalised(self.by_game[game.name], game)
            for game in subset.games
            if game.name in self.by_game
        }


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("visr").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@functools.cache
def paper_table() -> tuple[PaperRow, ...]:
    """The 51 rows: 17 algorithms on three sets of games."""
    return tuple(PaperRow(**row) for row in _rows("paper_table.csv"))


@functools.cache
def scores() -> tuple[Scores, ...]:
    """Per-game scores of published algorithms."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in _rows("published_scores.csv"):
        key = (row["algorithm"], row["interaction"], row["unit"])
        found.setdefault(key, {})[row["game"]] = float(row["score"])
    return tuple(Scores(*key, by_game) for key, by_game in found.items())


@functools.cache
def dqn_curves() -> dict[str, NDArray[np.float64]]:
    """Mean training scores of Dopamine's DQN by game, [k] that of the (k+1)-th million frames."""
    return {
        row.pop("game"): np.array([float(x) for x in row.values()])
        for row in _rows("dqn_curves.csv")
    }


def frames_to_match(curve: NDArray[np.float64], score: float) -> float:
    """Millions of frames until a curve of one point a million first reaches a score; infinity if never."""
    reached = np.flatnonzero(curve >= score)
    return float(reached[0] + 1) if reached.size else np.inf
