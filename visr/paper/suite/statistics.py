"""Aggregates over games and seeds: the paper's, and robust ones with confidence intervals.

Scores of one agent are a list with one array per game, which holds one number per seed; games may have
different numbers of seeds. The bootstrap is stratified: it resamples seeds within each game and keeps the
games, as in Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the Statistical Precipice".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PerGame = Sequence[Floats]
"""[games] of [seeds]."""
Statistic = Callable[..., Floats]
"""(*[..., seeds] of each game, axis) -> [...], as scipy.stats.bootstrap calls it."""

REPLICATES = 2_000
LEVEL = 0.95
HUMAN_LEVEL = 75.0
"""Per cent of the human score that the paper's ">H", after Mnih et al. (2015), calls human level."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval over seeds, of a number or of every point of a curve."""

    low: Any
    high: Any


@dataclass(frozen=True)
class Aggregate:
    """One agent over one set of games."""

    num_games: int
    num_seeds: int
    """Of the game with the fewest."""
    median: float
    median_std: float | None
    """Over the seeds that played every game; None with fewer than two of them."""
    mean: float
    mean_std: float | None
    num_above_random: int
    num_at_75: int
    num_at_100: int
    iqm: float
    iqm_interval: Interval | None
    """None if any game has only one seed."""
    mean_interval: Interval | None
    median_interval: Interval | None


def aggregate(scores: Mapping[str, Mapping[int, float]]) -> Aggregate:
    """Aggregate normalised scores by game and seed; 0 is a random player, 100 the reference."""
    per_game = arrays(scores)
    means = np.array([float(np.mean(game)) for game in per_game])
    complete = set.intersection(*(set(of) for of in scores.values()))
    by_seed = [[of[seed] for of in scores.values()] for seed in sorted(complete)]
    return Aggregate(
        num_games=len(per_game),
        num_seeds=min(map(len, per_game)),
        median=float(np.median(means)),
        median_std=_std([float(np.median(row)) for row in by_seed]),
        mean=float(np.mean(means)),
        mean_std=_std([float(np.mean(row)) for row in by_seed]),
        num_above_random=int((means > 0).sum()),
        num_at_75=int((means >= HUMAN_LEVEL).sum()),
        num_at_100=int((means >= 100).sum()),
        iqm=float(iqm(*per_game)),
        iqm_interval=interval(per_game, iqm),
        mean_interval=interval(per_game, mean),
        median_interval=interval(per_game, median),
    )


def arrays(scores: Mapping[str, Mapping[int, float]]) -> PerGame:
    """Scores by game and seed as one array per game."""
    return [np.array([of[seed] for seed in sorted(of)]) for of in scores.values()]


def _std(values: list[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def iqm(*games: Floats, axis: int = -1) -> Floats:
    """The interquartile mean: the mean of the middle half of all runs of all games."""
    return scipy.stats.trim_mean(np.concatenate(games, axis=axis), 0.25, axis=axis)


def mean(*games: Floats, axis: int = -1) -> Floats:
    """The mean over games of the means over seeds."""
    return np.mean([game.mean(axis=axis) for game in games], axis=0)


def median(*games: Floats, axis: int = -1) -> Floats:
    """The median over games of the means over seeds."""
    return np.median([game.mean(axis=axis) for game in games], axis=0)


def interval(
    per_game: PerGame, statistic: Statistic, seed: int = 0, replicates: int = REPLICATES
) -> Interval | None:
    """Percentiles of a statistic over seeds drawn with replacement within each game.

    None if any game has only one seed.
    """
    if min(map(len, per_game)) < 2:
        return None
    found = scipy.stats.bootstrap(
        per_game,
        statistic,
        vectorized=True,
        n_resamples=replicates,
        confidence_level=LEVEL,
        method="percentile",
        random_state=np.random.default_rng(seed),  # pyright: ignore  # called rng since scipy 1.15
    ).confidence_interval
    return Interval(found.low, found.high)


@dataclass(frozen=True)
class Improvement:
    """P(X > Y): how likely a run of X scores higher than one of Y on a random game; a tie counts half."""

    probability: float
    interval: Interval | None
    num_games: int

    @property
    def verdict(self) -> str:
        """Whether the interval lies above one half, below it, or around it."""
        if self.interval is not None and self.interval.low > 0.5:
            return "holds"
        if self.interval is not None and self.interval.high < 0.5:
            return "does not hold"
        return "not enough evidence"


def improvement(x: PerGame, y: PerGame) -> Improvement:
    """The probability of improvement of X over Y; both list the same games in the same order."""
    both = [*x, *y]
    return Improvement(float(_wins(*both)), interval(both, _wins), len(x))


def _wins(*games: Floats, axis: int = -1) -> Floats:
    """[..., seeds] of X's games, then of Y's -> [...]: P(X > Y), averaged over games."""
    x, y = games[: len(games) // 2], games[len(games) // 2 :]
    shares = [
        (np.sign(a[..., :, None] - b[..., None, :]) / 2 + 0.5).mean(axis=(-2, -1))
        for a, b in zip(x, y, strict=True)
    ]
    return np.mean(shares, axis=0)


@dataclass(frozen=True, eq=False)
class Curve:
    """y over x, nan where it is not known, with an interval around each point if there is one."""

    x: Floats
    y: Floats
    interval: Interval | None = None

    def rows(self) -> list[tuple[object, ...]]:
        """x, y and the interval of each known point."""
        empty = [""] * len(self.x)
        low, high = (self.interval.low, self.interval.high) if self.interval else (empty, empty)
        points = zip(self.x, self.y, low, high, strict=True)
        return [point for point in points if np.isfinite(point[1])]


def profile(per_game: PerGame, thresholds: Floats) -> Curve:
    """The performance profile P(score > threshold): the share of runs, averaged over games."""

    def share(*games: Floats, axis: int = -1) -> Floats:
        """[..., seeds] of each game -> [thresholds, ...]"""
        above = [
            (game > thresholds.reshape(-1, *[1] * game.ndim)).mean(axis=axis) for game in games
        ]
        return np.mean(above, axis=0)

    return Curve(thresholds, share(*per_game), interval(per_game, share, replicates=500))
