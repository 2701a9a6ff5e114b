"""Published numbers to compare with; `visr/data/README.md` names their sources."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visr.atari_games import read_data


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


@functools.cache
def paper_table() -> tuple[PaperRow, ...]:
    """The 51 rows: 17 algorithms on three sets of games."""
    return tuple(PaperRow(**row) for row in read_data("paper_table.csv"))


@functools.cache
def dqn_curves() -> dict[str, NDArray[np.float64]]:
    """Mean training scores of Dopamine's DQN by game; [k] is of the (k+1)-th million frames."""
    rows = read_data("dqn_curves.csv")
    return {row.pop("game"): np.array([float(x) for x in row.values()]) for row in rows}


def frames_to_match(curve: NDArray[np.float64], score: float) -> float:
    """Millions of frames until a curve with one point per million reaches a score; infinity if never."""
    reached = np.flatnonzero(curve >= score)
    return float(reached[0] + 1) if reached.size else np.inf
