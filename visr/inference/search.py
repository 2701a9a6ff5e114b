"""Tasks without a regression: the best one that an episode pursued, or the mean of r times the features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from visr.inference import block_sums
from visr.inference.steps import Floats, TriedTasks
from visr.ops.regression import RewardSums

MEAN = "mean of r B"
HELD_OUT = 4
"""Every fourth episode is held out."""
_NUM_RESAMPLES = 200


class SearchResult(NamedTuple):
    """A task, and how much it depends on the episodes."""

    method: str
    w: Floats
    """[d]"""
    w_of_others: Floats
    """[d], found without the held-out episodes."""
    resampled: Floats
    """[K, d], found in resampled episodes."""


def best_episode(tried: TriedTasks) -> SearchResult:
    """The paper's random search: the task of the single best episode."""
    best, count = int(tried.returns.argmax()), len(tried.returns)
    draws = np.random.default_rng(0).integers(count, size=(_NUM_RESAMPLES, count))
    winners = draws[np.arange(_NUM_RESAMPLES), tried.returns[draws].argmax(axis=1)]
    others, _ = split(tried)
    w_of_others = others.w[others.returns.argmax()] if len(others.w) else tried.w[best]
    method = f"random search over {count} episodes, best return {tried.returns[best]:g}"
    return SearchResult(method, tried.w[best], w_of_others, tried.w[winners])


def split(tried: TriedTasks) -> tuple[TriedTasks, TriedTasks]:
    """The episodes to choose from, and those held out."""
    is_held_out = np.arange(len(tried.returns)) % HELD_OUT == HELD_OUT - 1
    chosen, held_out = (
        TriedTasks(tried.w[rows], tried.returns[rows]) for rows in (~is_held_out, is_held_out)
    )
    return chosen, held_out


# ---- forward-backward agents


def mean_task(blocks: list[RewardSums]) -> SearchResult | None:
    """z = E[r B] at unit length, without held-out blocks, and of resampled ones; None where it is 0."""
    w = _direction(block_sums.total(blocks))
    if not w.any():
        return None
    others, _ = block_sums.split(blocks)
    again = np.array([_direction(sums) for sums in block_sums.resampled(blocks)])
    return SearchResult(MEAN, w, _direction(others), again)


def _direction(sums: RewardSums) -> Floats:
    cross = sums.moments[:-2, -2]
    length = float(np.linalg.norm(cross))
    return cross / length if length > 1e-12 else np.zeros_like(cross)
