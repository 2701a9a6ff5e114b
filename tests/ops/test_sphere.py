"""The sphere: uniform draws, and von Mises-Fisher draws against their density."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from tests.reference import vmf_mean_cosine
from visr.ops import sphere


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def axis(d: int, i: int = 0) -> torch.Tensor:
    return torch.eye(d)[i]


def test_normalise_gives_unit_vectors_and_leaves_zero_alone():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert torch.equal(sphere.normalise(x), torch.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_uniform_draws_are_unit_vectors_without_a_preferred_direction():
    x = sphere.uniform(200, 100, d=5, generator=seeded())
    assert x.shape == (200, 100, 5)
    torch.testing.assert_close(x.norm(dim=-1), torch.ones(200, 100))
    x = x.view(-1, 5)
    # at n = 20,000 the mean has a standard error of about .003, the second moments of about .002
    torch.testing.assert_close(x.mean(0), torch.zeros(5), atol=0.015, rtol=0)
    torch.testing.assert_close(x.T @ x / len(x), torch.eye(5) / 5, atol=0.01, rtol=0)


def test_the_same_seed_draws_the_same_vectors():
    mu = sphere.uniform(7, d=3, generator=seeded())
    assert torch.equal(mu, sphere.uniform(7, d=3, generator=seeded()))
    first, second = (sphere.vmf_sample(mu, 5.0, 4, seeded(1)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, sphere.vmf_sample(mu, 5.0, 4, seeded(2)))


@pytest.mark.parametrize("d", [2, 3, 5, 50])
@pytest.mark.parametrize("kappa", [0.0, 0.1, 1.0, 5.0, 50.0, 1e4])
def test_samples_are_unit_vectors_with_the_right_mean(d: int, kappa: float):
    mu = sphere.uniform(d=d, generator=seeded(3))
    x = sphere.vmf_sample(mu, kappa, 20_000, seeded())
    assert x.shape == (20_000, d)
    assert x.dtype == torch.float32
    torch.testing.assert_close(x.norm(dim=-1), torch.ones(20_000), atol=1e-5, rtol=0)
    cosines = (x.double() @ mu.double()).numpy()
    expected = vmf_mean_cosine(d, kappa)
    assert abs(cosines.mean() - expected) < 4 * cosines.std() / math.sqrt(20_000) + 1e-6
    torch.testing.assert_close(x.mean(0), expected * mu, atol=0.025, rtol=0)


@pytest.mark.parametrize(("d", "kappa"), [(2, 5.0), (3, 0.5), (5, 5.0), (50, 5.0), (50, 1e4)])
def test_sampled_cosines_follow_the_density(d: int, kappa: float):
    mu = sphere.uniform(d=d, generator=seeded(4)).double()
    cosines = (sphere.vmf_sample(mu, kappa, 20_000, seeded()) @ mu).numpy()
    angle = np.linspace(0, math.pi, 400_001)[1:-1]
    log_density = kappa * (np.cos(angle) - 1) + (d - 2) * np.log(np.sin(angle))
    below = np.cumsum(np.exp(log_density - log_density.max()))
    angles = np.arccos(np.clip(cosines, -1, 1))
    assert stats.kstest(angles, lambda a: np.interp(a, angle, below / below[-1])).pvalue > 0.01


def test_samples_are_symmetric_around_mu():
    d, n = 5, 40_000
    mu = sphere.uniform(d=d, generator=seeded(5))
    x = sphere.vmf_sample(mu, 5.0, n, seeded())
    side = sphere.normalise(x - (x @ mu)[:, None] * mu)
    # uniform on the sphere orthogonal to mu: mean 0, second moments (I - mu mu^T) / (d - 1)
    torch.testing.assert_close(side.mean(0), torch.zeros(d), atol=0.012, rtol=0)
    expected = (torch.eye(d) - torch.outer(mu, mu)) / (d - 1)
    torch.testing.assert_close(side.T @ side / n, expected, atol=0.008, rtol=0)


def test_each_mean_direction_gets_samples_of_its_own():
    mu = sphere.uniform(2, 3, d=4, generator=seeded())
    x = sphere.vmf_sample(mu, 200.0, 50, seeded(1))
    assert x.shape == (2, 3, 50, 4)
    assert ((x * mu[:, :, None]).sum(-1) > 0.9).all()
    assert (sphere.normalise(x.mean(2)) * mu).sum(-1).min() > 0.999


@pytest.mark.parametrize("d", [2, 3, 5])
def test_sampling_works_at_the_poles(d: int):
    for mu in (axis(d), -axis(d), axis(d, d - 1)):
        x = sphere.vmf_sample(mu, 5.0, 5_000, seeded())
        assert x.isfinite().all()
        torch.testing.assert_close(x.mean(0), vmf_mean_cosine(d, 5.0) * mu, atol=0.04, rtol=0)


@pytest.mark.parametrize("kappa", [1e4, 1e8, 1e16, 1e30])
def test_samples_with_a_huge_kappa_are_close_to_mu(kappa: float):
    for d in (2, 5, 50):
        mu = sphere.uniform(100, d=d, generator=seeded())
        x = sphere.vmf_sample(mu, kappa, 10, seeded(1))
        torch.testing.assert_close(x, mu[:, None].expand_as(x), atol=0.06, rtol=0)


def test_no_means_or_no_samples_give_an_empty_tensor():
    assert sphere.vmf_sample(torch.empty(0, 5), 5.0, 10).shape == (0, 10, 5)
    assert sphere.vmf_sample(sphere.uniform(3, d=5), 5.0, 0).shape == (3, 0, 5)


@pytest.mark.parametrize("kappa", [-1.0, math.nan, math.inf])
def test_an_impossible_kappa_is_refused(kappa: float):
    with pytest.raises(ValueError, match="kappa"):
        sphere.vmf_sample(axis(3), kappa, 1)


@pytest.mark.parametrize(("d", "kappa"), [(2, 0.5), (5, 5.0), (50, 100.0)])
def test_the_proposal_and_its_test_equal_woods(d: int, kappa: float):
    # Wood (1994) draws z ~ Beta((d-1)/2, (d-1)/2), which is (1 - y) / 2 for uniform directions
    b = (d - 1) / (2 * kappa + math.sqrt(4 * kappa**2 + (d - 1) ** 2))
    x0 = (1 - b) / (1 + b)
    c = kappa * x0 + (d - 1) * math.log(1 - x0**2)
    y = np.linspace(-0.99, 0.99, 67)
    z = (1 - y) / 2
    t = (1 - (1 + b) * z) / (1 - (1 - b) * z)
    h = 1 / (1 + x0 * y)
    np.testing.assert_allclose((x0 + y) * h, t, rtol=1e-9, atol=1e-12)
    wood = kappa * t + (d - 1) * np.log(1 - x0 * t) - c
    np.testing.assert_allclose((d - 1) * (1 - h + np.log(h)), wood, rtol=1e-9, atol=1e-9)


def test_a_mean_joined_with_its_draws_is_their_concatenation():
    random = torch.Generator().manual_seed(0)
    for shape in ((5,), (3, 5), (4, 3, 5)):
        mu = sphere.uniform(*shape[:-1], d=5, generator=random)
        draws = sphere.vmf_sample(mu, 5.0, 10, random)
        joined = sphere.joined(mu, draws)
        assert torch.equal(joined, torch.cat([mu.unsqueeze(-2), draws], dim=-2))
        assert joined.is_contiguous()
