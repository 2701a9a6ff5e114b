"""What many scores come to: the paper's aggregates, and the robust ones that came after it.

Scores of one agent are a list with an array per game, of one number per seed; games may have different
numbers of seeds. Intervals are stratified: they draw seeds anew within each game and keep the games as they
are, after Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the Statistical Precipice".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PerGame = Sequence[Floats]
"""[games] of [seeds]."""

REPLICATES = 2_000
LEVEL = 0.95
HUMAN_LEVEL = 75.0
"""Per cent from which on Mnih et al. (2015), and so the paper's ">H", speak of human level."""


@dataclass(frozen=True)
class Interval:
    """Where a statistic would lie if the seeds had been others."""

    low: float
    high: float


@dataclass(frozen=True)
class Aggregate:
    """One agent over one set of games."""

    num_games: int
    num_seeds: int
    """Of the game with the fewest."""
    median: float
    median_std: float | None
    """Over seeds that played every game; None where there are not two of them."""
    mean: float
    mean_std: float | None
    num_above_random: int
    num_at_75: int
    num_at_100: int
    iqm: float
    iqm_interval: Interval | None
    """None where a game has one seed only: nothing tells how seeds differ."""
    mean_interval: Interval | None
    median_interval: Interval | None


def aggregate(scores: Mapping[str, Mapping[int, float]]) -> Aggregate:
    """All of it, from normalised scores by game and seed: 0 is a random player, 100 the reference."""
    per_game = [np.array([of[seed] for seed in sorted(of)]) for of in scores.values()]
    means = game_means(per_game)
    by_seed = complete_seeds(scores)
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
        iqm=iqm(per_game),
        iqm_interval=interval(per_game, iqm_of_rows),
        mean_interval=interval(per_game, mean_of_rows),
        median_interval=interval(per_game, median_of_rows),
    )


def game_means(per_game: PerGame) -> Floats:
    """[games], over seeds."""
    return np.array([float(np.mean(game)) for game in per_game])


def complete_seeds(scores: Mapping[str, Mapping[int, float]]) -> list[Floats]:
    """[seeds] of [games]: those seeds with which every game was played."""
    shared = set.intersection(*(set(of) for of in scores.values()))
    return [np.array([of[seed] for of in scores.values()]) for seed in sorted(shared)]


def _std(values: list[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def iqm(per_game: PerGame) -> float:
    """The mean of the middle half of all runs, whatever their game."""
    return float(_middle_mean(np.concatenate(list(per_game))[None])[0])


def _middle_mean(rows: Floats) -> Floats:
    """[..., N] -> [...]: a quarter of the numbers (rounded down) is cut at either end."""
    cut = rows.shape[-1] // 4
    return np.sort(rows, axis=-1)[..., cut : rows.shape[-1] - cut].mean(axis=-1)


Statistic = Callable[[list[Floats]], Floats]
"""[games] of [replicates, seeds] -> [replicates]."""


def iqm_of_rows(drawn: list[Floats]) -> Floats:
    """The interquartile mean of every replicate."""
    return _middle_mean(np.concatenate(drawn, axis=1))


def mean_of_rows(drawn: list[Floats]) -> Floats:
    """The mean over games of the means over seeds."""
    return np.mean([game.mean(axis=1) for game in drawn], axis=0)


def median_of_rows(drawn: list[Floats]) -> Floats:
    """The median over games of the means over seeds."""
    return np.median([game.mean(axis=1) for game in drawn], axis=0)


def interval(
    per_game: PerGame, statistic: Statistic, replicates: int = REPLICATES, seed: int = 0
) -> Interval | None:
    """The percentiles of a statistic over stratified bootstrap replicates."""
    if min(map(len, per_game)) < 2:
        return None
    drawn = resampled(per_game, replicates, np.random.default_rng(seed))
    return _percentiles(statistic(drawn))


def resampled(per_game: PerGame, replicates: int, random: np.random.Generator) -> list[Floats]:
    """[games] of [replicates, seeds]: as many seeds as a game has, drawn with replacement."""
    return [game[random.integers(len(game), size=(replicates, len(game)))] for game in per_game]


def _percentiles(values: Floats) -> Interval:
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(values, [tail, 100 - tail])
    return Interval(float(low), float(high))


@dataclass(frozen=True)
class Improvement:
    """P(X > Y): how likely a run of X beats one of Y on a game drawn at random; a tie counts half."""

    probability: float
    interval: Interval | None
    num_games: int

    @property
    def verdict(self) -> str:
        """Plain words: even odds are one half."""
        if self.interval is None:
            return "not enough evidence"
        if self.interval.low > 0.5:
            return "holds"
        return "does not hold" if self.interval.high < 0.5 else "not enough evidence"


def improvement(x: PerGame, y: PerGame, replicates: int = REPLICATES, seed: int = 0) -> Improvement:
    """Of X over Y, game by game in the same order."""
    once = _wins([game[None] for game in x], [game[None] for game in y])
    if min(map(len, [*x, *y])) < 2:
        return Improvement(float(once[0]), None, len(x))
    random = np.random.default_rng(seed)
    drawn = _wins(resampled(x, replicates, random), resampled(y, replicates, random))
    return Improvement(float(once[0]), _percentiles(drawn), len(x))


def _wins(x: list[Floats], y: list[Floats]) -> Floats:
    """[games] of [replicates, seeds], twice -> [replicates]."""
    games = [
        (np.sign(a[:, :, None] - b[:, None, :]) / 2 + 0.5).mean(axis=(1, 2))
        for a, b in zip(x, y, strict=True)
    ]
    return np.mean(games, axis=0)


@dataclass(frozen=True, eq=False)
class Profile:
    """The share of runs above each threshold, games weighing alike; with its band, if seeds permit."""

    thresholds: Floats
    share: Floats
    low: Floats | None
    high: Floats | None


def profile(per_game: PerGame, thresholds: Floats, replicates: int = 500, seed: int = 0) -> Profile:
    """A performance profile: P(score > threshold)."""
    share = _share([game[None] for game in per_game], thresholds)[0]
    if min(map(len, per_game)) < 2:
        return Profile(thresholds, share, None, None)
    drawn = _share(resampled(per_game, replicates, np.random.default_rng(seed)), thresholds)
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(drawn, [tail, 100 - tail], axis=0)
    return Profile(thresholds, share, low, high)


def _share(drawn: list[Floats], thresholds: Floats) -> Floats:
    """[games] of [replicates, seeds] -> [replicates, thresholds]."""
    total = np.zeros((len(drawn[0]), len(thresholds)))
    for game in drawn:
        total += (game[:, :, None] > thresholds).mean(axis=1)
    return total / len(drawn)
