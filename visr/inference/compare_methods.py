"""Every method on the same rewarded steps, and how far to trust each: held-out and resampled episodes."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from visr.config.fields import InferenceConfig
from visr.inference import block_sums, explain, search, smoothed_search
from visr.inference.regression import (
    LEAST_SQUARES,
    SEARCH,
    Comparison,
    Estimate,
    Validation,
    fit_or_none,
    from_fit,
    from_search,
    r_squared_along,
    require_any,
)
from visr.inference.search import SearchResult
from visr.inference.steps import Floats, RewardedSteps, TriedTasks
from visr.ops.regression import (
    Fit,
    RewardSums,
    mean_direction,
    predicted,
    projected,
    solve,
)

SMOOTHED, BOTH = "smoothed search", "both states"
_RIDGES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
_LEAST = 1e-3
"""Length of w beside u and v: a smaller one means that the reward sums to a constant along any path."""
_ROUNDING = 1e-9
"""A relative difference that rounding alone can make."""


def compare_methods(steps: RewardedSteps) -> Comparison:
    """Infer w by every method; held-out episodes choose the best."""
    rows = _rows(steps)
    estimates = {name: row.estimate for name, row in rows.items()}
    require_any(estimates)
    validations = _validations(rows, steps.tried)
    is_exact = steps.is_constant and _has_constant(steps.sums())  # R^2 of a constant says nothing
    best = LEAST_SQUARES if is_exact and LEAST_SQUARES in estimates else _best(validations)
    fits = [name for name, row in rows.items() if row.explained >= explain.LITTLE]
    if steps.prefers_regression and fits:
        best = max(fits, key=lambda name: (rows[name].r_squared, rows[name].explained))
    words = explain.words(estimates[best].method, validations[best], steps, best == SEARCH)
    counts = (steps.num_steps, steps.num_episodes, steps.num_rewarded)
    return Comparison(estimates, best, *counts, validations, words)


class _MethodResult(NamedTuple):
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


def _rows(steps: RewardedSteps) -> dict[str, _MethodResult]:
    blocks, tried = steps.blocks(), steps.tried
    rows = _by_mean(blocks) if steps.by_mean else _by_regressions(steps, blocks)
    if tried is not None:
        rows[SEARCH] = _by_search(search.best_episode(tried), blocks)
        if len(tried.returns) >= smoothed_search.ENOUGH:
            rows[SMOOTHED] = _by_search(smoothed_search.best_neighbourhood(tried), blocks)
    return rows


def fit_along(w: Floats, steps: RewardedSteps) -> tuple[Fit, float]:
    """The fit of r ~ a phi . w + b on all steps, and its R^2."""
    sums = projected(steps.sums(), w)
    fit = solve(sums, centred=True)
    return fit, predicted(sums, fit)


def _by_mean(blocks: list[RewardSums]) -> dict[str, _MethodResult]:
    found = _mean_task(blocks)
    if found is None:
        return {}
    others, held_out = (projected(sums, found.w) for sums in block_sums.split(blocks))
    explained = _share_explained(held_out, solve(others))
    return {search.MEAN: _by_search(found, blocks)._replace(explained=explained)}


def _mean_task(blocks: list[RewardSums]) -> SearchResult | None:
    """z = E[r B] at unit length, without held-out blocks, and of resampled ones; None where it is 0."""
    w = mean_direction(block_sums.total(blocks))
    if not w.any():
        return None
    others, _ = block_sums.split(blocks)
    again = np.array([mean_direction(sums) for sums in block_sums.resampled(blocks)])
    return SearchResult(search.MEAN, w, mean_direction(others), again)


def _by_regressions(steps: RewardedSteps, blocks: list[RewardSums]) -> dict[str, _MethodResult]:
    resampled = block_sums.resampled(blocks)
    fits = {
        name: _by_regression(name, settings, blocks, resampled)
        for name, settings in _regressions(blocks, steps.is_constant).items()
    }
    if steps.left is not None and not steps.is_constant:
        fits[BOTH] = _by_both_states(steps, steps.left.gamma)
    return {name: row for name, row in fits.items() if row is not None}


def _by_both_states(steps: RewardedSteps, gamma: float) -> _MethodResult | None:
    """Ridge regression on chi(s) and chi(s'); None where the task is 0."""
    blocks = joined_states(steps).blocks()
    centred = not _has_constant(block_sums.total(blocks))
    settings = {"centred": centred, "ridge": _best_ridge(blocks, centred)}
    resampled = block_sums.resampled(blocks, block_sums.FEWER_RESAMPLES)
    row = _by_regression(BOTH, settings, blocks, resampled)
    w = None if row is None else task_of_both(row.estimate.w, gamma)
    if row is None or w is None or not w.any():
        return None
    found = row.estimate
    error = error_of_both(found.w, found.standard_error, gamma)
    return _MethodResult(
        dataclasses.replace(found, w=w, standard_error=error),
        row.r_squared,
        task_of_both(row.w_of_others, gamma),
        task_of_both(row.resampled, gamma),
        row.explained,
    )


def _regressions(blocks: list[RewardSums], is_constant: bool) -> dict[str, dict[str, Any]]:
    """Settings of `solve` by method; a constant reward or feature leaves nothing to centre."""
    if is_constant:
        return {LEAST_SQUARES: {}}
    if _has_constant(block_sums.total(blocks)):
        return {"ridge": {"ridge": _best_ridge(blocks, centred=False)}}
    return {
        LEAST_SQUARES: {},
        "ridge": {"ridge": _best_ridge(blocks, centred=False)},
        "centred": {"centred": True},
        "centred ridge": {"centred": True, "ridge": _best_ridge(blocks, centred=True)},
        "whitened": {"centred": True, "whitened": True},
    }


def _has_constant(sums: RewardSums) -> bool:
    """Whether one feature among others is the same, and not 0, in all steps: the offset of the reward."""
    second, total = np.diag(sums.moments)[:-2], sums.moments[-1, :-2]
    is_constant = sums.num_steps * second - total**2 <= 1e-9 * sums.num_steps * second
    return bool((is_constant & (second > 0)).any() and not is_constant.all())


def _best_ridge(blocks: list[RewardSums], centred: bool) -> float:
    """The penalty that predicts held-out blocks best."""
    others, held_out = block_sums.split(blocks)
    scores = [predicted(held_out, solve(others, centred=centred, ridge=r)) for r in _RIDGES]
    return _RIDGES[int(np.argmax(scores))]


def _by_regression(
    name: str, settings: dict[str, Any], blocks: list[RewardSums], resampled: list[RewardSums]
) -> _MethodResult | None:
    config, (others, held_out) = InferenceConfig(**settings), block_sums.split(blocks)
    fit = fit_or_none(block_sums.total(blocks), config)
    if fit is None:
        return None
    part = solve(others, **settings)
    again = [fit_or_none(sums, config) for sums in resampled]
    method = f"{name} ({config.ridge:g})" if config.ridge else name
    return _MethodResult(
        from_fit(method, fit),
        predicted(held_out, part),
        part.w / max(float(np.linalg.norm(part.w)), 1e-12),
        np.array([other.w for other in again if other is not None] or [fit.w]),
        _share_explained(held_out, part),
    )


def _share_explained(held_out: RewardSums, fit: Fit) -> float:
    """1 - SSE / sum r^2 of a fit's predictions on other steps: high where they predict a constant, too."""
    coefficients = np.concatenate([fit.w, [-1.0, fit.intercept]])
    sse = float(coefficients @ held_out.moments @ coefficients)
    return 1 - max(sse, 0.0) / max(float(held_out.moments[-2, -2]), 1e-300)


def _by_search(found: SearchResult, blocks: list[RewardSums]) -> _MethodResult:
    estimated = from_search(found, block_sums.total(blocks))
    r_squared = r_squared_along(estimated.w, *block_sums.split(blocks))
    return _MethodResult(estimated, r_squared, found.w_of_others, found.resampled)


def _validations(rows: dict[str, _MethodResult], tried: TriedTasks | None) -> dict[str, Validation]:
    expected = dict.fromkeys(rows)
    if tried is not None and len(tried.returns) >= smoothed_search.ENOUGH:
        kappa, (_, held_out) = smoothed_search.best_kappa(tried), search.split(tried)
        expected = {
            name: float(smoothed_search.expected_return(held_out, row.w_of_others, kappa))
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


# ---- rewards of both states of a step, for agents whose features are of states
#
# If r_t = u . chi(s_t) + v . chi(s_t+1), then
#     sum_t gamma^t r_t = u . chi(s_0) + sum_t gamma^t (gamma u + v) . chi(s_t+1),
# except for the last state of an episode, which no step leaves. So the task is w = gamma u + v.


def joined_states(steps: RewardedSteps) -> RewardedSteps:
    """The steps with [chi(s), chi(s')] as features, [N, 2 d]."""
    assert steps.left is not None
    features = np.concatenate([steps.left.features, steps.features], axis=1)
    return dataclasses.replace(steps, features=features, left=None)


def task_of_both(both: Floats, gamma: float) -> Floats:
    """w = gamma u + v for [u, v] of unit length: [..., 2 d] -> [..., d], of unit length; 0 if it is tiny."""
    u, v = np.split(both, 2, axis=-1)
    w = gamma * u + v
    length = np.linalg.norm(w, axis=-1, keepdims=True)
    return np.where(length > _LEAST, w / np.maximum(length, _LEAST), 0.0)


def error_of_both(both: Floats, standard_error: Floats, gamma: float) -> Floats:
    """The standard error of that w, for independent errors of u and v."""
    u, v = np.split(both, 2)
    of_u, of_v = np.split(standard_error, 2)
    return np.hypot(gamma * of_u, of_v) / max(float(np.linalg.norm(gamma * u + v)), _LEAST)
