"""The running R^2 of predictions."""

from __future__ import annotations

from dataclasses import astuple

import pytest
import torch

from visr.finetuning.relabelling import RunningRSquared


def test_batches_give_the_same_r_squared_as_all_data_at_once():
    rng = torch.Generator().manual_seed(0)
    r = 1e6 + torch.randn(1_000, generator=rng, dtype=torch.float64)
    prediction = r + 0.3 * torch.randn(1_000, generator=rng, dtype=torch.float64)
    fit = RunningRSquared()
    for some, predicted in zip(r.split(70), prediction.split(70), strict=True):
        fit.add(some, predicted)
    exact = 1 - float((r - prediction).square().sum() / (r - r.mean()).square().sum())
    assert fit.r_squared == pytest.approx(exact, rel=1e-6)
    assert RunningRSquared(*astuple(fit)) == fit


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1.0])
def test_a_constant_reward_has_no_r_squared(value: float):
    fit = RunningRSquared()
    assert fit.r_squared is None
    for _ in range(20):
        r = torch.full((160,), value, dtype=torch.float64)
        fit.add(r, r + 0.01)
    assert fit.r_squared is None
