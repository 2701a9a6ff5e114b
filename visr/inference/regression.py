"""Rewarded steps -> w: regression and search on the same steps, and how far to trust each."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from visr.config.fields import InferenceConfig
from visr.errors import UserError
from visr.inference import block_sums, both_states, explain, search
from visr.inference.search import Found
from visr.inference.steps import Floats, RewardedSteps, TriedTasks
from visr.ops.regression import Fit, RewardSums, fit_task, has_constant, solve
from visr.storage.summaries import Summary

LEAST_SQUARES, SEARCH, SMOOTHED = "least squares", "random search", "smoothed search"
BOTH = "both states"
_RIDGES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
_ROUNDING = 1e-9
"""A relative difference that rounding alone can make."""


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


def estimate(steps: RewardedSteps, config: InferenceConfig | None = None) -> Comparison:
    """Infer w by regression and, where episodes pursued one task each, by search.

    With `config`: by this regression and by random search, as in the paper's second phase.
    Without: by every method; held-out episodes choose the best.
    """
    rows = _rows(steps) if config is None else {}
    estimates = {name: row.estimate for name, row in rows.items()}
    if config is not None:
        estimates = _configured(steps, config)
    if not estimates:
        raise UserError(
            "The reward has nothing in common with the features (w = 0), so no task can be inferred "
            "from it; train with more features (--num-features) or change the reward."
        )
    counts = (steps.num_steps, steps.num_episodes, steps.num_rewarded)
    if config is not None:
        return Comparison(estimates, next(iter(estimates)), *counts)
    validations = _validations(rows, steps.tried)
    is_exact = steps.is_constant and has_constant(steps.sums())  # R^2 of a constant says nothing
    best = LEAST_SQUARES if is_exact and LEAST_SQUARES in estimates else _best(validations)
    fits = [name for name, row in rows.items() if row.explained >= explain.LITTLE]
    if steps.prefers_regression and fits:
        best = max(fits, key=lambda name: (rows[name].r_squared, rows[name].explained))
    words = explain.words(estimates[best].method, validations[best], steps, best == SEARCH)
    return Comparison(estimates, best, *counts, validations, words)


def describe(config: InferenceConfig) -> str:
    """The regression in words."""
    method = f"ridge regression ({config.ridge:g})" if config.ridge else LEAST_SQUARES
    method = f"whitened {method}" if config.whitened else method
    return f"centred {method}" if config.centred else method


def _configured(steps: RewardedSteps, config: InferenceConfig) -> dict[str, Estimate]:
    estimates = {}
    sums = steps.sums() if steps.features.shape[1] else None  # DIAYN has no features
    if sums is not None and steps.by_mean:
        found = search.mean_task([sums])
        estimates |= {LEAST_SQUARES: _from_search(found, sums)} if found else {}
    elif sums is not None and (fit := _fit(sums, config)):
        estimates[LEAST_SQUARES] = _from_fit(describe(config), fit)
    if steps.tried is not None:
        estimates[SEARCH] = _from_search(search.best_episode(steps.tried), sums)
    return estimates


def _fit(sums: RewardSums, config: InferenceConfig) -> Fit | None:
    """None where w = 0: the features say nothing about the reward."""
    with contextlib.suppress(UserError):
        return fit_task(sums, config)


def _from_fit(method: str, fit: Fit) -> Estimate:
    return Estimate(method, fit.w, fit.r_squared, fit.condition_number, fit.standard_error)


def _from_search(found: Found, sums: RewardSums | None) -> Estimate:
    w = found.w / np.linalg.norm(found.w)
    r_squared = 0.0 if sums is None else _r_squared_along(w, sums, sums)
    return Estimate(found.method, w, r_squared, math.inf, np.full(len(w), math.inf))


# ---- every method, validated on held-out and resampled episodes


class _Row(NamedTuple):
    """One method's estimate, and what validates it."""

    estimate: Estimate
    r_squared: float
    """On held-out blocks."""
    w_of_others: Floats
    """[d], without the held-out episodes."""
    resampled: Floats
    """[K, d], of resampled episodes."""
    explained: float = 0.0
    """Share of r^2 on held-out blocks that a regression explains."""


def _rows(steps: RewardedSteps) -> dict[str, _Row]:
    blocks, tried = steps.blocks(), steps.tried
    rows = _by_mean(blocks) if steps.by_mean else _by_regressions(steps, blocks)
    if tried is not None:
        rows[SEARCH] = _by_search(search.best_episode(tried), blocks)
        if len(tried.returns) >= search.ENOUGH:
            rows[SMOOTHED] = _by_search(search.best_neighbourhood(tried), blocks)
    return rows


def _by_mean(blocks: list[RewardSums]) -> dict[str, _Row]:
    found = search.mean_task(blocks)
    if found is None:
        return {}
    others, held_out = (block_sums.projected(sums, found.w) for sums in block_sums.split(blocks))
    explained = block_sums.explained(held_out, solve(others))
    return {search.MEAN: _by_search(found, blocks)._replace(explained=explained)}


def _by_regressions(steps: RewardedSteps, blocks: list[RewardSums]) -> dict[str, _Row]:
    resampled = block_sums.resampled(blocks)
    fits = {
        name: _by_regression(name, settings, blocks, resampled)
        for name, settings in _regressions(blocks, steps.is_constant).items()
    }
    if steps.left is not None and not steps.is_constant:
        fits[BOTH] = _by_both_states(steps, steps.left.gamma)
    return {name: row for name, row in fits.items() if row is not None}


def _by_both_states(steps: RewardedSteps, gamma: float) -> _Row | None:
    """Ridge regression on chi(s) and chi(s'); None where the task is 0."""
    blocks = both_states.joined(steps).blocks()
    centred = not has_constant(block_sums.total(blocks))
    settings = {"centred": centred, "ridge": _best_ridge(blocks, centred)}
    resampled = block_sums.resampled(blocks, block_sums.FEWER_RESAMPLES)
    row = _by_regression(BOTH, settings, blocks, resampled)
    w = None if row is None else both_states.task(row.estimate.w, gamma)
    if row is None or w is None or not w.any():
        return None
    found = row.estimate
    error = both_states.error(found.w, found.standard_error, gamma)
    return _Row(
        dataclasses.replace(found, w=w, standard_error=error),
        row.r_squared,
        both_states.task(row.w_of_others, gamma),
        both_states.task(row.resampled, gamma),
        row.explained,
    )


def _regressions(blocks: list[RewardSums], is_constant: bool) -> dict[str, dict[str, Any]]:
    """Settings of `solve` by method; a constant reward or feature leaves nothing to centre."""
    if is_constant:
        return {LEAST_SQUARES: {}}
    if has_constant(block_sums.total(blocks)):
        return {"ridge": {"ridge": _best_ridge(blocks, centred=False)}}
    return {
        LEAST_SQUARES: {},
        "ridge": {"ridge": _best_ridge(blocks, centred=False)},
        "centred": {"centred": True},
        "centred ridge": {"centred": True, "ridge": _best_ridge(blocks, centred=True)},
        "whitened": {"centred": True, "whitened": True},
    }


def _best_ridge(blocks: list[RewardSums], centred: bool) -> float:
    """The penalty that predicts held-out blocks best."""
    others, held_out = block_sums.split(blocks)
    scores = [
        block_sums.predicted(held_out, solve(others, centred=centred, ridge=r)) for r in _RIDGES
    ]
    return _RIDGES[int(np.argmax(scores))]


def _by_regression(
    name: str, settings: dict[str, Any], blocks: list[RewardSums], resampled: list[RewardSums]
) -> _Row | None:
    config, (others, held_out) = InferenceConfig(**settings), block_sums.split(blocks)
    fit = _fit(block_sums.total(blocks), config)
    if fit is None:
        return None
    part = solve(others, **settings)
    again = [_fit(sums, config) for sums in resampled]
    method = f"{name} ({config.ridge:g})" if config.ridge else name
    return _Row(
        _from_fit(method, fit),
        block_sums.predicted(held_out, part),
        part.w / max(float(np.linalg.norm(part.w)), 1e-12),
        np.array([other.w for other in again if other is not None] or [fit.w]),
        block_sums.explained(held_out, part),
    )


def _by_search(found: Found, blocks: list[RewardSums]) -> _Row:
    estimated = _from_search(found, block_sums.total(blocks))
    r_squared = _r_squared_along(estimated.w, *block_sums.split(blocks))
    return _Row(estimated, r_squared, found.w_of_others, found.resampled)


def _validations(rows: dict[str, _Row], tried: TriedTasks | None) -> dict[str, Validation]:
    expected = dict.fromkeys(rows)
    if tried is not None and len(tried.returns) >= search.ENOUGH:
        kappa, (_, held_out) = search.best_kappa(tried), search.split(tried)
        expected = {
            name: float(search.expected_return(held_out, row.w_of_others, kappa))
            for name, row in rows.items()
        }
    return {
        name: Validation(
            r_squared=row.r_squared,
            interval=np.quantile(row.resampled, [0.05, 0.95], axis=0),
            bootstrap_cosine=float((row.resampled @ row.estimate.w).mean()),
            expected_return=expected[name],
        )
        for name, row in rows.items()
    }


def _best(validations: dict[str, Validation]) -> str:
    """The highest expected return if it is known; else R^2, or random search if no fit explains much."""
    expected = {
        n: v.expected_return for n, v in validations.items() if v.expected_return is not None
    }
    if expected:
        values = np.array(list(expected.values()))
        if len(values) > 1 and np.ptp(values) <= _ROUNDING * np.abs(values).max():
            return SMOOTHED  # held-out episodes tell no difference, and only smoothed search used them all
        return max(expected, key=lambda name: expected[name])
    best = max(validations, key=lambda name: validations[name].r_squared)
    explains = validations[best].r_squared >= explain.LITTLE
    return best if explains or SEARCH not in validations else SEARCH


def _r_squared_along(w: Floats, others: RewardSums, held_out: RewardSums) -> float:
    """R^2 of r ~ a phi . w + b on held-out steps, fitted on the others."""
    return block_sums.predicted(
        block_sums.projected(held_out, w), solve(block_sums.projected(others, w), centred=True)
    )


def fit_along(w: Floats, steps: RewardedSteps) -> tuple[Fit, float]:
    """The fit of r ~ a phi . w + b on all steps, and its R^2."""
    sums = block_sums.projected(steps.sums(), w)
    fit = solve(sums, centred=True)
    return fit, block_sums.predicted(sums, fit)
