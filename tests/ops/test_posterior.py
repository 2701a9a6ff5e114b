"""The Gaussian over w, and Thompson's draws from it."""

from __future__ import annotations

import numpy as np
import pytest

from visr.ops.posterior import posterior_of
from visr.ops.regression import RewardSums


def sums_of(phi: np.ndarray, r: np.ndarray) -> RewardSums:
    sums = RewardSums(phi.shape[1])
    sums.add(phi, r)
    return sums


def draws(sums: RewardSums, count: int = 2000, **fields: bool) -> np.ndarray:
    posterior, random = posterior_of(sums, **fields), np.random.default_rng(0)
    return np.stack([posterior.draw(random) for _ in range(count)])


def test_without_data_draws_are_uniform_on_the_sphere():
    drawn = draws(RewardSums(3))
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(drawn.T @ drawn / len(drawn), np.eye(3) / 3, atol=0.03)


def test_steps_without_any_reward_teach_nothing():
    phi = np.random.default_rng(0).normal(size=(100, 3))
    np.testing.assert_allclose(draws(sums_of(phi, np.zeros(100))).mean(axis=0), 0, atol=0.05)


def test_many_clean_steps_leave_one_answer():
    random = np.random.default_rng(1)
    phi, w = random.normal(size=(5000, 4)), np.array([0.6, 0.0, -0.8, 0.0])
    drawn = draws(sums_of(phi, phi @ w + 0.1 * random.normal(size=5000)), count=200)
    assert (drawn @ w).min() > 0.99


def test_doubt_stays_where_phi_never_went():
    # phi varies along the first axis only: that coordinate is known, the others may be anything.
    random = np.random.default_rng(2)
    phi = np.zeros((1000, 3))
    phi[:, 0] = random.normal(size=1000)
    posterior = posterior_of(sums_of(phi, phi[:, 0] + 0.1 * random.normal(size=1000)))
    deviation = np.sqrt((posterior.basis**2) @ posterior.deviation**2)
    assert deviation[0] < 0.02
    assert deviation[1:].min() > 0.5


def test_more_steps_leave_less_doubt():
    random = np.random.default_rng(3)
    phi = random.normal(size=(4000, 3))
    r = phi @ np.array([1.0, 0, 0]) + random.normal(size=4000)
    few, many = (posterior_of(sums_of(phi[:n], r[:n])).deviation.max() for n in (100, 4000))
    assert many == pytest.approx(few / 40**0.5, rel=0.3)


def test_the_unit_of_the_reward_does_not_matter():
    random = np.random.default_rng(4)
    phi = random.normal(size=(50, 3))
    r = phi @ np.array([0.0, 1.0, 0.0]) + random.normal(size=50)
    np.testing.assert_allclose(draws(sums_of(phi, r)), draws(sums_of(phi, 1000 * r)), rtol=1e-4)


def test_centred_draws_do_not_see_an_offset():
    random = np.random.default_rng(5)
    phi = random.normal(size=(200, 3)) + 1
    r = phi @ np.array([0.0, 1.0, 0.0])
    centred = [posterior_of(sums_of(phi, r + offset), centred=True).mean for offset in (0.0, 10.0)]
    np.testing.assert_allclose(centred[0], centred[1], rtol=1e-6)
