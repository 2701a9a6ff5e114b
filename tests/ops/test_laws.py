"""Laws that hold for every input, checked on random inputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from visr.ops import regression, returns, sphere

EVERYWHERE = settings(max_examples=60, deadline=None)
seeds = some.integers(0, 2**31 - 1)
kappas = some.floats(0, 1e8, allow_subnormal=False)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@EVERYWHERE
@given(seed=seeds, d=some.integers(1, 40), scale=some.floats(1e-6, 1e6))
def test_normalised_vectors_have_length_one_at_any_scale(seed: int, d: int, scale: float):
    x = torch.randn(7, d, generator=generator(seed)).double()
    unit = sphere.normalise(x * scale)
    torch.testing.assert_close(unit.norm(dim=-1), torch.ones(7).double(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(unit, sphere.normalise(x), rtol=1e-6, atol=1e-9)


@EVERYWHERE
@given(seed=seeds, d=some.integers(2, 60), kappa=kappas)
def test_von_mises_fisher_draws_are_unit_vectors(seed: int, d: int, kappa: float):
    mu = sphere.uniform(3, d=d, generator=generator(seed))
    x = sphere.vmf_sample(mu, kappa, 5, generator(seed + 1))
    assert x.shape == (3, 5, d)
    torch.testing.assert_close(x.norm(dim=-1), torch.ones(3, 5), rtol=1e-3, atol=1e-3)


@EVERYWHERE
@given(seed=seeds, n=some.integers(1, 12), steps=some.integers(1, 9), gamma=some.floats(0, 1))
def test_returns_are_linear_in_cumulant_and_value(seed: int, n: int, steps: int, gamma: float):
    random = generator(seed)
    c, v = (
        torch.randn(2, steps, 3, generator=random),
        torch.randn(2, steps + 1, 3, generator=random),
    )
    discount = gamma * (torch.rand(steps, 3, generator=random) < 0.8)
    both = returns.n_step(c[0] + 2 * c[1], discount, v[0] + 2 * v[1], n)
    apart = [returns.n_step(c[i], discount, v[i], n) for i in (0, 1)]
    torch.testing.assert_close(both, apart[0] + 2 * apart[1], rtol=1e-4, atol=1e-4)


@EVERYWHERE
@given(seed=seeds, n=some.integers(1, 12), gamma=some.floats(0, 0.99))
def test_the_value_of_a_constant_reward_is_its_own_return(seed: int, n: int, gamma: float):
    value = 1 / (1 - gamma)  # v = 1 + gamma v
    g = returns.n_step(torch.ones(8, 2), torch.full((8, 2), gamma), torch.full((9, 2), value), n)
    torch.testing.assert_close(g, torch.full((8, 2), value), rtol=1e-4, atol=1e-4)


@EVERYWHERE
@given(seed=seeds, d=some.integers(1, 8), scale=some.floats(1e-6, 1e6))
def test_regression_recovers_a_planted_w_at_any_scale(seed: int, d: int, scale: float):
    random = np.random.default_rng(seed)
    phi, w = random.standard_normal((20 * d, d)), random.standard_normal(d) * scale
    sums = regression.RewardSums(d)
    sums.add(phi, phi @ w)
    fit = regression.solve(sums)
    np.testing.assert_allclose(fit.w, w, rtol=1e-6, atol=1e-7 * scale)
    assert fit.r_squared == pytest.approx(1, abs=1e-6)


@EVERYWHERE
@given(seed=seeds, d=some.integers(1, 6), cut=some.integers(0, 30), ridge=some.floats(0, 1e3))
def test_sums_of_two_parts_equal_the_sums_of_all_steps(seed: int, d: int, cut: int, ridge: float):
    random = np.random.default_rng(seed)
    phi, r = random.standard_normal((30, d)), random.standard_normal(30)
    whole, first, second = (regression.RewardSums(d) for _ in range(3))
    whole.add(phi, r)
    first.add(phi[:cut], r[:cut])
    second.add(phi[cut:], r[cut:])
    a, b = (regression.solve(sums, ridge=ridge) for sums in (whole, first + second))
    np.testing.assert_allclose(a.w, b.w, rtol=1e-6, atol=1e-9)
    assert a.num_rewarded == b.num_rewarded
