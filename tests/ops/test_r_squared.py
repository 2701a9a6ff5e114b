"""How much of what varies was foreseen."""

from __future__ import annotations

import pytest
import torch

from visr.ops.r_squared import Fit


def test_batches_come_to_what_all_of_it_would():
    random = torch.Generator().manual_seed(0)
    r = 1e6 + torch.randn(1_000, generator=random, dtype=torch.float64)
    foreseen = r + 0.3 * torch.randn(1_000, generator=random, dtype=torch.float64)
    fit = Fit()
    for some, told in zip(r.split(70), foreseen.split(70), strict=True):
        fit.note(some, told)
    exact = 1 - float((r - foreseen).square().sum() / (r - r.mean()).square().sum())
    assert fit.r_squared == pytest.approx(exact, rel=1e-6)
    assert Fit(*fit.sums()) == fit


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1.0])
def test_what_never_varies_has_no_variance_to_foresee(value: float):
    fit = Fit()
    assert fit.r_squared is None
    for _ in range(20):
        r = torch.full((160,), value, dtype=torch.float64)
        fit.note(r, r + 0.01)
    assert fit.r_squared is None
