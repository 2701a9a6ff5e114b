"""Smoothed search: the tried task whose neighbours returned most, without playing a step.

E[return | w] = sum_i k(w . w_i) R_i / sum_i k(w . w_i), with the von Mises-Fisher kernel
k(x) = exp(kappa (x - 1)).
"""

from __future__ import annotations

import numpy as np

from visr.inference.search import SearchResult, split
from visr.inference.steps import Floats, TriedTasks

ENOUGH = 200
"""Episodes below which the returns of nearby tasks are too noisy to use."""
_KAPPAS = (2.0, 5.0, 10.0, 20.0, 50.0)
_MOST = 4_000
"""Episodes that are compared with all others."""


def best_neighbourhood(tried: TriedTasks) -> SearchResult:
    """The tried task with the highest mean return of nearby tasks."""
    kappa, halves = best_kappa(tried), split(tried)
    resampled = np.array([_best_task(half, kappa) for half in halves])
    method = f"smoothed search (kappa {kappa:g})"
    return SearchResult(method, _best_task(tried, kappa), resampled[0], resampled)


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
