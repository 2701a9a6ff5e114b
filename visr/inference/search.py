"""Tasks without a regression: search among those that episodes pursued, or the mean of r times the features.

The mean return near w, without playing a step:
E[return | w] = sum_i k(w . w_i) R_i / sum_i k(w . w_i), with the von Mises-Fisher kernel
k(x) = exp(kappa (x - 1)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from visr.inference import block_sums
from visr.inference.steps import Floats, TriedTasks
from visr.ops.regression import RewardSums

MEAN = "mean of r B"
ENOUGH = 200
"""Episodes below which the returns of nearby tasks are too noisy to use."""
HELD_OUT = 4
"""Every fourth episode is held out."""
_KAPPAS = (2.0, 5.0, 10.0, 20.0, 50.0)
_MOST = 4_000
"""Episodes that are compared with all others."""
_NUM_RESAMPLES = 200


class Found(NamedTuple):
    """A task, and how much it depends on the episodes."""

    method: str
    w: Floats
    """[d]"""
    w_of_others: Floats
    """[d], found without the held-out episodes."""
    resampled: Floats
    """[K, d], found in resampled episodes."""


def best_episode(tried: TriedTasks) -> Found:
    """The paper's random search: the task of the single best episode."""
    best, count = int(tried.returns.argmax()), len(tried.returns)
    draws = np.random.default_rng(0).integers(count, size=(_NUM_RESAMPLES, count))
    winners = draws[np.arange(_NUM_RESAMPLES), tried.returns[draws].argmax(axis=1)]
    others, _ = split(tried)
    w_of_others = others.w[others.returns.argmax()] if len(others.w) else tried.w[best]
    method = f"random search over {count} episodes, best return {tried.returns[best]:g}"
    return Found(method, tried.w[best], w_of_others, tried.w[winners])


def best_neighbourhood(tried: TriedTasks) -> Found:
    """Smoothed search: the tried task with the highest mean return of nearby tasks."""
    kappa, halves = best_kappa(tried), split(tried)
    resampled = np.array([_best_task(half, kappa) for half in halves])
    method = f"smoothed search (kappa {kappa:g})"
    return Found(method, _best_task(tried, kappa), resampled[0], resampled)


def split(tried: TriedTasks) -> tuple[TriedTasks, TriedTasks]:
    """The episodes to choose from, and those held out."""
    is_held_out = np.arange(len(tried.returns)) % HELD_OUT == HELD_OUT - 1
    chosen, held_out = (
        TriedTasks(tried.w[rows], tried.returns[rows]) for rows in (~is_held_out, is_held_out)
    )
    return chosen, held_out


def expected_return(tried: TriedTasks, w: Floats, kappa: float) -> Floats:
    """E[return | w] for tasks w [..., d]."""
    weight = np.exp(kappa * (w @ tried.w.T - 1))
    return (weight @ tried.returns) / weight.sum(axis=-1)


def best_kappa(tried: TriedTasks) -> float:
    """The kernel that predicts held-out returns best."""
    others, held_out = split(tried)
    w, returns = held_out.w[:_MOST], held_out.returns[:_MOST]
    errors = [np.square(expected_return(others, w, k) - returns).mean() for k in _KAPPAS]
    return _KAPPAS[int(np.argmin(errors))]


def _best_task(tried: TriedTasks, kappa: float) -> Floats:
    return tried.w[int(expected_return(tried, tried.w[:_MOST], kappa).argmax())]


# ---- forward-backward agents


def mean_task(blocks: list[RewardSums]) -> Found | None:
    """z = E[r B] at unit length, without held-out blocks, and of resampled ones; None where it is 0."""
    w = _direction(block_sums.total(blocks))
    if not w.any():
        return None
    others, _ = block_sums.split(blocks)
    again = np.array([_direction(sums) for sums in block_sums.resampled(blocks)])
    return Found(MEAN, w, _direction(others), again)


def _direction(sums: RewardSums) -> Floats:
    cross = sums.moments[:-2, -2]
    length = float(np.linalg.norm(cross))
    return cross / length if length > 1e-12 else np.zeros_like(cross)
