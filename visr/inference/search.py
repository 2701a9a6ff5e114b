"""The paper's random search: the best task that an episode pursued."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from visr.inference.steps import Floats, TriedTasks

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
