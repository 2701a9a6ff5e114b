"""Rewarded steps -> w: regression and random search on the same steps."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from visr.config.fields import InferenceConfig
from visr.errors import UserError
from visr.inference import search
from visr.inference.search import SearchResult
from visr.inference.steps import Floats, RewardedSteps
from visr.ops.regression import (
    Fit,
    RewardSums,
    fit_task,
    mean_direction,
    predicted,
    projected,
    solve,
)
from visr.storage.summaries import Summary

LEAST_SQUARES, SEARCH = "least squares", "random search"


@dataclass(frozen=True, eq=False)
class Estimate:
    """The w of one method, from all steps."""

    method: str
    w: Floats
    """[d], unit length."""
    r_squared: float
    """1 - SSE / SST of the rewards."""
    condition_number: float
    """Of the features' second moments; inf for search."""
    standard_error: Floats
    """[d]; inf for search."""
    measures: dict[str, float] = field(default_factory=dict)
    """What to trust it by where no reward was regressed; R^2 means nothing there."""


@dataclass(frozen=True, eq=False)
class Validation:
    """How an estimate does on other episodes."""

    r_squared: float
    """On held-out episodes, fitted on the others; negative is worse than a constant."""
    interval: Floats
    """[2, d], the middle 90 % of w over resampled episodes."""
    bootstrap_cosine: float
    """The mean cosine between w and the w of resampled episodes: 1 is certain."""
    expected_return: float | None
    """Mean return of held-out episodes with nearby tasks; None with fewer than 200 episodes."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Summary):
    """The estimates of several methods on the same steps."""

    estimates: dict[str, Estimate]
    best: str
    """The method to trust."""
    num_steps: int
    num_episodes: int
    num_rewarded: int
    validations: dict[str, Validation] = field(default_factory=dict)
    """By method; empty where nothing was held out."""
    words: list[str] = field(default_factory=list)
    """What the numbers mean."""
    counted: str = "steps"
    """What `num_steps` counts."""

    def summary(self) -> dict[str, str]:
        """R^2 of every method, on held-out episodes where there are any; or what else it is trusted by."""
        found = {"best": self.best, self.counted: f"{self.num_steps:,}"}
        for name, one in self.estimates.items():
            measures = one.measures or {"R^2": self._method(name)["r_squared"]}
            found |= {f"{key} of {name}": f"{value:.3f}" for key, value in measures.items()}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Every method, as `visr infer --json` prints it."""
        methods = {name: self._method(name) for name in self.estimates}
        counts = {"num_episodes": self.num_episodes}
        return {"best": self.best, "methods": methods, **counts, "words": self.words}

    def _method(self, name: str) -> dict[str, Any]:
        """One method's numbers; those that only held-out episodes give are None without any."""
        found, validation = self.estimates[name], self.validations.get(name)
        measures = {"measures": found.measures} if found.measures else {}
        return {
            "method": found.method,
            **measures,
            "w": found.w.tolist(),
            "r_squared": validation.r_squared if validation else found.r_squared,
            "condition_number": found.condition_number,
            "expected_return": validation and validation.expected_return,
            "interval": validation and validation.interval.tolist(),
            "steadiness": validation and validation.bootstrap_cosine,
        }


def estimate(steps: RewardedSteps, config: InferenceConfig) -> Comparison:
    """Infer w by this regression and, where episodes pursued one task each, by random search.

    This is the paper's second phase; `visr.inference.compare_methods` tries every method.
    """
    estimates, sums = {}, None
    if steps.features.shape[1]:  # DIAYN has no features
        sums = steps.sums()
        estimates = _regressed(steps, sums, config)
    if steps.tried is not None:
        estimates[SEARCH] = from_search(search.best_episode(steps.tried), sums)
    require_any(estimates)
    counts = (steps.num_steps, steps.num_episodes, steps.num_rewarded)
    return Comparison(estimates, next(iter(estimates)), *counts)


def require_any(estimates: dict[str, Estimate]) -> None:
    """Refuse a reward that no method gives a task for."""
    if not estimates:
        raise UserError(
            "The reward has nothing in common with the features (w = 0), so no task can be inferred "
            "from it; train with more features (--num-features) or change the reward."
        )


def describe(config: InferenceConfig) -> str:
    """The regression in words."""
    method = f"ridge regression ({config.ridge:g})" if config.ridge else LEAST_SQUARES
    method = f"whitened {method}" if config.whitened else method
    return f"centred {method}" if config.centred else method


def _regressed(
    steps: RewardedSteps, sums: RewardSums, config: InferenceConfig
) -> dict[str, Estimate]:
    if steps.by_mean:
        w = mean_direction(sums)
        found = SearchResult(search.MEAN, w, w, w[None])
        return {LEAST_SQUARES: from_search(found, sums)} if w.any() else {}
    fit = fit_or_none(sums, config)
    return {LEAST_SQUARES: from_fit(describe(config), fit)} if fit else {}


def fit_or_none(sums: RewardSums, config: InferenceConfig) -> Fit | None:
    """None where w = 0: the features say nothing about the reward."""
    with contextlib.suppress(UserError):
        return fit_task(sums, config)


def from_fit(method: str, fit: Fit) -> Estimate:
    """A regression's estimate."""
    return Estimate(method, fit.w, fit.r_squared, fit.condition_number, fit.standard_error)


def from_search(found: SearchResult, sums: RewardSums | None) -> Estimate:
    """A search's estimate; R^2 is 0 without features."""
    w = found.w / np.linalg.norm(found.w)
    r_squared = 0.0 if sums is None else r_squared_along(w, sums, sums)
    return Estimate(found.method, w, r_squared, math.inf, np.full(len(w), math.inf))


def r_squared_along(w: Floats, others: RewardSums, held_out: RewardSums) -> float:
    """R^2 of r ~ a phi . w + b on held-out steps, fitted on the others."""
    return predicted(projected(held_out, w), solve(projected(others, w), centred=True))
