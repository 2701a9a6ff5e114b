"""n-step returns: by hand, and against a direct implementation of the definition."""

import pytest
import torch
from torch import Tensor

from visr.ops import returns


def column(*numbers: float) -> Tensor:
    """One environment's numbers over time: [T, 1]."""
    return torch.tensor(numbers, dtype=torch.float32)[:, None]


def flags(*marks: int) -> Tensor:
    return torch.tensor(marks, dtype=torch.bool)[:, None]


def by_definition(c: Tensor, discount: Tensor, v: Tensor, n: int, cut: Tensor) -> Tensor:
    """The recursion as it is written down, one step and one environment at a time."""
    num_steps, batch = discount.shape

    def g(t: int, b: int, k: int) -> Tensor:
        ends = k == 1 or bool(cut[t, b]) or t == num_steps - 1
        return c[t, b] + discount[t, b] * (v[t + 1, b] if ends else g(t + 1, b, k - 1))

    rows = [torch.stack([g(t, b, n) for b in range(batch)]) for t in range(num_steps)]
    return torch.stack(rows)


def test_one_step_return_is_the_cumulant_and_the_discounted_next_value():
    g = returns.n_step(column(1, 2), column(0.5, 0.25), column(100, 8, 16), n=1)
    assert torch.equal(g, column(1 + 0.5 * 8, 2 + 0.25 * 16))


def test_two_step_return_stops_where_the_episode_ends():
    # t      0     1     2
    # c      1     2     4
    # gamma .5     0    .5     the episode ended at t = 2
    # v      8     8     8
    # G_0 = 1 + .5 (2 + 0*8) = 2     G_1 = 2 + 0 = 2     G_2 = 4 + .5*8 = 8
    g = returns.n_step(column(1, 2, 4), column(0.5, 0, 0.5), column(8, 8, 8, 8), n=2)
    assert torch.equal(g, column(2, 2, 8))


@pytest.mark.parametrize("n", [3, 4, 99])
def test_a_time_out_bootstraps_and_uses_no_later_step(n: int):
    # t      0     1     2     3
    # c      1     2     4    1000
    # gamma .5    .5    .5    .5
    # v_t+1  7     8     2     0
    # cut          x                 time limit at t = 2
    # G_1 = 2 + .5*8 = 6     G_0 = 1 + .5*6 = 4     G_3 = 1000     G_2 = 4 + .5*1000 = 504
    cut = flags(0, 1, 0, 0)
    c, v = column(1, 2, 4, 1000), column(9, 7, 8, 2, 0)
    assert torch.equal(
        returns.n_step(c, torch.full((4, 1), 0.5), v, n, cut), column(4, 6, 504, 1000)
    )


def test_a_step_that_is_terminal_and_timed_out_does_not_bootstrap():
    # gamma = 0 and cut at the same step: the value is 0, G_0 = 1 + .5*2
    g = returns.n_step(column(1, 2, 4), column(0.5, 0, 0.5), column(8, 8, 8, 8), 3, flags(0, 1, 0))
    assert torch.equal(g, column(2, 2, 8))


def test_returns_bootstrap_at_the_end_of_the_unroll():
    # n = 3, T = 4, c = 1, gamma = 1/2, v_t = 16:
    # G_0 = 1 + 1/2 + 1/4 + 16/8 = 3.75     G_1 = the same
    # G_2 = 1 + 1/2 + 16/4 = 5.5            G_3 = 1 + 16/2 = 9
    half, ones = torch.full((4, 1), 0.5), torch.ones(4, 1)
    g = returns.n_step(ones, half, torch.full((5, 1), 16.0), n=3)
    assert torch.equal(g, column(3.75, 3.75, 5.5, 9))


def test_an_unroll_of_one_step_is_its_one_step_return():
    for n in (1, 2, 10):
        assert torch.equal(returns.n_step(column(3), column(0.5), column(0, 4), n), column(5))


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 8, 50])
@pytest.mark.parametrize("features", [(), (3,), (2, 2)])
def test_any_n_and_any_shape_follow_the_definition(n: int, features: tuple[int, ...]):
    random = torch.Generator().manual_seed(n)
    c = torch.randn(7, 5, *features, generator=random, dtype=torch.float64)
    v = torch.randn(8, 5, *features, generator=random, dtype=torch.float64)
    discount = 0.9 * (torch.rand(7, 5, generator=random, dtype=torch.float64) > 0.2)
    cut = torch.rand(7, 5, generator=random) < 0.2
    expected = by_definition(c, discount, v, n, cut)
    torch.testing.assert_close(returns.n_step(c, discount, v, n, cut), expected)


def test_both_ways_to_compute_long_returns_agree():
    # with a cut at every fourth step, any n of at least 4 gives the same returns
    random = torch.Generator().manual_seed(0)
    c, v = torch.randn(12, 4, 3, generator=random), torch.randn(13, 4, 3, generator=random)
    discount = torch.rand(12, 4, generator=random)
    cut = (torch.arange(12) % 4 == 3)[:, None].expand(12, 4)
    to_the_end = returns.n_step(c, discount, v, 12, cut)
    for n in (4, 5, 11, 13, 1000):
        torch.testing.assert_close(returns.n_step(c, discount, v, n, cut), to_the_end)


def test_a_vector_cumulant_equals_separate_scalar_cumulants():
    random = torch.Generator().manual_seed(1)
    c, v = torch.randn(6, 2, 3, generator=random), torch.randn(7, 2, 3, generator=random)
    discount = torch.rand(6, 2, generator=random)
    for n in (2, 6):
        g = returns.n_step(c, discount, v, n)
        for i in range(3):
            alone = returns.n_step(c[..., i], discount, v[..., i], n)
            torch.testing.assert_close(g[..., i], alone)


def test_the_arguments_are_not_changed():
    c, discount, v, cut = column(1, 2), column(0.5, 0.5), column(3, 4, 5), flags(0, 0)
    before = [x.clone() for x in (c, discount, v, cut)]
    for n in (1, 2):
        returns.n_step(c, discount, v, n, cut)
    assert all(torch.equal(x, y) for x, y in zip((c, discount, v, cut), before, strict=True))
