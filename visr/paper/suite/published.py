"""Published numbers to compare with; `visr/data/README.md` names their sources."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's table for one set of games, with its numbers as printed; empty for a dash."""

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
    """Names of the columns that Table 1 prints bold, separated by semicolons."""

    @property
    def name(self) -> str:
        """As in the first column of the paper's table."""
        return f"{self.algorithm} @{self.interaction}"


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("visr").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@functools.cache
def paper_table() -> tuple[PaperRow, ...]:
    """The 51 rows: 17 algorithms on three sets of games."""
    return tuple(PaperRow(**row) for row in _rows("paper_table.csv"))


@functools.cache
def dqn_curves() -> dict[str, NDArray[np.float64]]:
    """Mean training scores of Dopamine's DQN by game; [k] is of the (k+1)-th million frames."""
    return {
        row.pop("game"): np.array([float(x) for x in row.values()])
        for row in _rows("dqn_curves.csv")
    }


def frames_to_match(curve: NDArray[np.float64], score: float) -> float:
    """Millions of frames until a curve with one point per million reaches a score; infinity if never."""
    reached = np.flatnonzero(curve >= score)
    return float(reached[0] + 1) if reached.size else np.inf
