"""Reward regression: against numpy, by hand, and on data it cannot fit."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from visr.errors import UserError
from visr.ops import regression
from visr.ops.regression import RewardSums

METHODS = [{}, {"ridge": 1e-3}, {"centred": True}, {"centred": True, "ridge": 1e-3}]


def unit_features(n: int, d: int, seed: int = 0) -> np.ndarray:
    phi = np.random.default_rng(seed).normal(size=(n, d)) + 0.3
    return phi / np.linalg.norm(phi, axis=1, keepdims=True)


def sums_of(phi: np.ndarray, r: np.ndarray) -> RewardSums:
    sums = RewardSums(phi.shape[1])
    sums.add(phi, r)
    return sums


def assert_same_fit(a: regression.Fit, b: regression.Fit):
    for name, value in vars(a).items():
        np.testing.assert_allclose(value, getattr(b, name), rtol=1e-9, atol=1e-9)


def test_two_steps_by_hand():
    # phi = 1, 2   r = 3, 5:   w = (3 + 10) / (1 + 4) = 2.6   SSE = .4^2 + .2^2 = .2   SST = 2
    fit = regression.solve(sums_of(np.array([[1.0], [2.0]]), np.array([3.0, 5.0])))
    np.testing.assert_allclose(fit.w, [2.6])
    assert fit.r_squared == pytest.approx(0.9)
    assert fit.intercept == 0
    assert fit.condition_number == pytest.approx(1)
    np.testing.assert_allclose(fit.standard_error, [np.sqrt(0.2 / 1 / 5)])
    assert (fit.num_steps, fit.num_rewarded) == (2, 2)


@pytest.mark.parametrize("centred", [False, True])
def test_a_planted_w_is_recovered(centred: bool):
    phi, w = unit_features(500, 5), np.array([1.0, -2.0, 0.0, 3.0, 0.5])
    fit = regression.solve(sums_of(phi, phi @ w), centred=centred)
    np.testing.assert_allclose(fit.w, w, atol=1e-9)
    assert fit.r_squared == pytest.approx(1)
    assert fit.intercept == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_merging_equals_all_at_once(method: dict[str, Any]):
    phi = unit_features(300, 4)
    r = np.random.default_rng(1).normal(size=300) + phi[:, 0]
    parts = sums_of(phi[:17], r[:17]) + sums_of(phi[17:17], r[17:17]) + sums_of(phi[17:], r[17:])
    assert_same_fit(regression.solve(parts, **method), regression.solve(sums_of(phi, r), **method))


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_steps_and_of_batches_does_not_matter(method: dict[str, Any]):
    random = np.random.default_rng(2)
    phi = unit_features(300, 4)
    r = random.normal(size=300) * (random.random(300) < 0.3)
    order = random.permutation(300)
    streamed = RewardSums(4)
    for batch in np.array_split(order, 7):
        streamed.add(phi[batch], r[batch])
    assert_same_fit(
        regression.solve(streamed, **method), regression.solve(sums_of(phi, r), **method)
    )


def test_merging_does_not_change_the_parts():
    a, b = sums_of(np.eye(2), np.ones(2)), sums_of(np.eye(2), np.zeros(2))
    (a + b).add(np.eye(2), np.ones(2))
    assert (a.num_steps, a.num_rewarded, b.num_steps, b.num_rewarded) == (2, 2, 2, 0)


@pytest.mark.parametrize("d", [1, 2, 5, 50])
def test_least_squares_matches_numpy_on_the_raw_data(d: int):
    phi = unit_features(400, d)
    r = np.random.default_rng(3).normal(size=400)
    expected, *_ = np.linalg.lstsq(phi, r, rcond=None)
    fit = regression.solve(sums_of(phi, r))
    np.testing.assert_allclose(fit.w, expected, atol=1e-8)
    residual = ((r - phi @ expected) ** 2).sum()
    assert fit.r_squared == pytest.approx(1 - residual / ((r - r.mean()) ** 2).sum())
    assert fit.condition_number == pytest.approx(np.linalg.cond(phi.T @ phi), rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("num_states", [1, 3, 7])
def test_fewer_states_than_features_gives_numpys_minimum_norm_solution(
    num_states: int, dtype: type
):
    random = np.random.default_rng(num_states)
    states = unit_features(num_states, 8).astype(dtype)
    phi = states[random.integers(num_states, size=100_000)]
    r = random.normal(size=100_000)
    expected, *_ = np.linalg.lstsq(phi.astype(np.float64), r, rcond=1e-6)
    fit = regression.solve(sums_of(phi, r))
    np.testing.assert_allclose(fit.w, expected, atol=1e-8)
    assert fit.condition_number == np.inf
    assert np.isfinite(fit.standard_error).all()


def test_a_rarely_visited_state_is_fitted_exactly():
    # one-hot features: w is each state's mean reward, even for a state visited once in two million steps
    counts = np.array([999_999, 1_000_000, 1])
    phi = np.repeat(np.eye(3), counts, axis=0)
    fit = regression.solve(sums_of(phi, phi @ np.array([0.0, 1.0, 7.0])))
    np.testing.assert_allclose(fit.w, [0, 1, 7], atol=1e-8)


def test_ridge_adds_a_share_of_the_mean_diagonal():
    phi = unit_features(200, 5)
    r = np.random.default_rng(4).normal(size=200)
    gram = phi.T @ phi
    penalised = gram + 0.1 * np.trace(gram) / 5 * np.eye(5)
    fit = regression.solve(sums_of(phi, r), ridge=0.1)
    np.testing.assert_allclose(fit.w, np.linalg.solve(penalised, phi.T @ r))
    sse = ((r - phi @ fit.w) ** 2).sum()
    assert fit.r_squared == pytest.approx(1 - sse / ((r - r.mean()) ** 2).sum())
    hat = phi @ np.linalg.solve(penalised, phi.T)
    inverse = np.linalg.inv(penalised)
    sandwich = sse / (200 - np.trace(hat)) * inverse @ gram @ inverse
    np.testing.assert_allclose(fit.standard_error, np.sqrt(np.diag(sandwich)))


def test_no_ridge_is_least_squares():
    sums = sums_of(unit_features(100, 3), np.random.default_rng(5).normal(size=100))
    assert_same_fit(regression.solve(sums, ridge=0.0), regression.solve(sums))


def test_centred_ignores_a_constant_offset_and_plain_does_not():
    phi, w = unit_features(500, 5), np.array([1.0, 0.0, -1.0, 0.0, 2.0])
    noise = np.random.default_rng(6).normal(size=500)
    without, offset = (sums_of(phi, phi @ w + noise + shift) for shift in (0.0, 10.0))
    a, b = (regression.solve(sums, centred=True) for sums in (without, offset))
    np.testing.assert_allclose(a.w, b.w, atol=1e-9)
    np.testing.assert_allclose(a.standard_error, b.standard_error, rtol=1e-9)
    assert b.intercept - a.intercept == pytest.approx(10)
    assert b.r_squared == pytest.approx(a.r_squared)
    plain = [regression.solve(sums).w for sums in (without, offset)]
    assert np.linalg.norm(plain[0] - plain[1]) > 1


def test_centred_matches_numpy_with_a_column_of_ones():
    phi = unit_features(300, 4)
    r = np.random.default_rng(7).normal(size=300) + 3
    design = np.column_stack([phi, np.ones(300)])
    expected, *_ = np.linalg.lstsq(design, r, rcond=None)
    fit = regression.solve(sums_of(phi, r), centred=True)
    np.testing.assert_allclose([*fit.w, fit.intercept], expected, atol=1e-8)
    sigma2 = ((r - design @ expected) ** 2).sum() / (300 - 5)
    errors = np.sqrt(sigma2 * np.diag(np.linalg.inv(design.T @ design)))
    np.testing.assert_allclose(fit.standard_error, errors[:4])
    assert fit.condition_number == pytest.approx(np.linalg.cond(np.cov(phi.T)))


@pytest.mark.parametrize("centred", [False, True])
def test_standard_errors_cover_the_truth(centred: bool):
    # 95 % intervals, 400 draws of 5 coefficients: the share has a standard error of at most .011
    random = np.random.default_rng(8)
    phi, w = unit_features(60, 5), np.array([1.0, -2.0, 0.0, 3.0, 0.5])
    covered = []
    for _ in range(400):
        fit = regression.solve(sums_of(phi, phi @ w + random.normal(size=60)), centred=centred)
        covered.append(np.abs(fit.w - w) < 2.0 * fit.standard_error)  # t quantile at 55 degrees
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("constant", [0.0, 0.1, -7.0, 1e9])
def test_a_constant_reward_explains_nothing_and_is_not_nan(method: dict[str, Any], constant: float):
    fit = regression.solve(sums_of(unit_features(1000, 3), np.full(1000, constant)), **method)
    assert fit.r_squared == 0.0
    assert fit.num_rewarded == (1000 if constant else 0)
    if method.get("centred"):
        assert (fit.w == 0).all()
        assert fit.intercept == pytest.approx(constant)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_too_few_steps_give_an_infinite_standard_error_and_no_nan(
    method: dict[str, Any], num_steps: int
):
    phi, r = unit_features(num_steps, 3), np.arange(num_steps) + 1.0
    fit = regression.solve(sums_of(phi, r), **method)
    numbers = [*fit.w, fit.intercept, fit.r_squared, fit.condition_number, *fit.standard_error]
    assert not np.isnan(numbers).any()
    if "ridge" not in method:
        assert (fit.standard_error == np.inf).all()


@pytest.mark.parametrize("method", METHODS)
def test_constant_features_give_w_0_and_no_nan(method: dict[str, Any]):
    for phi in (np.zeros((10, 3)), np.tile([0.6, 0.8, 0.0], (10, 1))):
        fit = regression.solve(sums_of(phi, np.arange(10.0)), **method)
        assert not np.isnan([*fit.w, fit.r_squared, *fit.standard_error]).any()
        if method.get("centred"):
            assert (fit.w == 0).all()


def test_a_reward_that_phi_cannot_express_has_a_negative_r_squared():
    # phi = 1, -1 and r = 1, 1: w = 0, worse than the constant 1
    phi, r = np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([1.0, 1.0, 1.1, 1.1])
    assert regression.solve(sums_of(phi, r)).r_squared < -1


def test_tensors_and_lists_are_accepted_like_arrays():
    phi, r = [[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0]
    from_lists, from_tensors = RewardSums(2), RewardSums(2)
    from_lists.add(phi, r)
    from_tensors.add(torch.tensor(phi).numpy(), torch.tensor(r))
    np.testing.assert_array_equal(from_lists.moments, from_tensors.moments)
    assert from_lists.num_rewarded == from_tensors.num_rewarded == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_and_not_added(bad: float):
    sums = sums_of(np.eye(2), np.ones(2))
    before = sums.moments.copy()
    with pytest.raises(UserError, match="1 of 2 rewards are NaN or infinite"):
        sums.add(np.eye(2), np.array([1.0, bad]))
    with pytest.raises(UserError, match="1 of 4 features phi are NaN or infinite"):
        sums.add(np.array([[1.0, bad], [0.0, 1.0]]), np.ones(2))
    np.testing.assert_array_equal(sums.moments, before)


def test_wrong_shapes_and_empty_sums_are_refused_in_a_sentence():
    sums = RewardSums(2)
    for phi, r in [(np.eye(3), np.ones(3)), (np.eye(2), np.ones((2, 1))), (np.eye(2), np.ones(3))]:
        with pytest.raises(UserError, match="regression needs"):
            sums.add(phi, r)
    with pytest.raises(UserError, match="no steps"):
        regression.solve(sums)


def test_regression_does_not_need_torch():
    code = "import sys, visr.ops.regression; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_whitened_w_is_the_coefficients_of_whitened_features():
    # phi = (10 x, y) with x, y uncorrelated: r = x + y has white coefficients (1, 1), hence w ~ (1, 1);
    # least squares gives (0.1, 1), the correlation (10, 1).
    x, y = np.array([1.0, 1, -1, -1]), np.array([1.0, -1, 1, -1])
    sums = RewardSums(2)
    sums.add(np.column_stack([10 * x, y]), x + y)
    w = regression.solve(sums, whitened=True).w
    assert w[0] == pytest.approx(w[1])
    np.testing.assert_allclose(regression.solve(sums).w, [0.1, 1.0])


def test_whitened_w_has_the_scale_of_least_error():
    random = np.random.default_rng(0)
    phi = random.normal(size=(200, 3)) @ random.normal(size=(3, 3))
    r = random.normal(size=200) + phi[:, 0]
    sums = RewardSums(3)
    sums.add(phi, r)
    fit = regression.solve(sums, whitened=True)
    errors = [np.square(r - s * phi @ fit.w).sum() for s in (0.99, 1.0, 1.01)]
    assert errors[1] < min(errors[0], errors[2])
    assert fit.r_squared == pytest.approx(1 - errors[1] / np.square(r - r.mean()).sum())
    assert fit.r_squared <= regression.solve(sums).r_squared


def test_whitening_does_not_change_white_features():
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    sums = RewardSums(2)
    sums.add(corners, corners @ [0.3, -0.7])
    np.testing.assert_allclose(regression.solve(sums, whitened=True).w, regression.solve(sums).w)


def test_a_fitted_task_has_unit_length_and_a_separate_scale():
    # r = 6 phi_1 - 8 phi_2 on the two axes: w = (.6, -.8), scale 10
    sums = RewardSums(2)
    sums.add([[1.0, 0.0], [0.0, 1.0]], [6.0, -8.0])
    fit = regression.fit_task(sums, regression.LEAST_SQUARES)
    np.testing.assert_allclose(fit.w, [0.6, -0.8])
    assert fit.scale == pytest.approx(10.0)


def test_a_reward_uncorrelated_with_the_features_gives_no_task():
    sums = RewardSums(2)
    sums.add([[1.0, 0.0], [1.0, 0.0]], [1.0, -1.0])
    with pytest.raises(UserError, match="nothing in common with the features"):
        regression.fit_task(sums, regression.LEAST_SQUARES)


def test_fits_of_the_same_sums_share_one_decomposition_until_steps_are_added(
    monkeypatch: pytest.MonkeyPatch,
):
    calls, eigh = [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda m: calls.append(len(m)) or eigh(m))
    phi, w = unit_features(50, 4), np.array([1.0, -2.0, 0.0, 3.0])
    sums = sums_of(phi[:20], phi[:20] @ w)
    for ridge in (0.0, 0.1, 1.0):
        regression.solve(sums, ridge=ridge)
    assert len(calls) == 1
    sums.add(phi[20:], phi[20:] @ -w)
    assert_same_fit(
        regression.solve(sums),
        regression.solve(sums_of(phi[:20], phi[:20] @ w) + sums_of(phi[20:], phi[20:] @ -w)),
    )
