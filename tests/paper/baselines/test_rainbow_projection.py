"""C51's projection equals a loop over atoms, and its divergence the definition."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from visr.paper.baselines.rainbow.agent import divergence, project

ATOMS = torch.linspace(-10, 10, 51, dtype=torch.float64)


def slowly(probability: Tensor, atoms: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
    """Bellemare et al. (2017), Algorithm 1, one atom of one sample at a time."""
    projected = torch.zeros_like(probability)
    spacing = float(atoms[1] - atoms[0])
    for sample in range(len(probability)):
        for atom, mass in zip(atoms.tolist(), probability[sample].tolist(), strict=True):
            moved = float(reward[sample]) + float(discount[sample]) * atom
            place = (min(max(moved, float(atoms[0])), float(atoms[-1])) - float(atoms[0])) / spacing
            low, high = math.floor(place), math.ceil(place)
            if low == high:
                projected[sample, low] += mass
            else:
                projected[sample, low] += mass * (high - place)
                projected[sample, high] += mass * (place - low)
    return projected


def some(num_samples: int) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(num_samples, len(ATOMS), generator=random, dtype=torch.float64)
    reward = 8 * torch.randn(num_samples, generator=random, dtype=torch.float64)
    discount = torch.rand(num_samples, generator=random, dtype=torch.float64)
    discount[::4] = 0  # an episode that ended
    return logits.softmax(dim=-1), reward, discount


def test_the_projection_equals_a_loop_over_atoms():
    probability, reward, discount = some(40)
    quick = project(probability, ATOMS, reward, discount)
    assert torch.allclose(quick, slowly(probability, ATOMS, reward, discount), atol=1e-9)


def test_a_projection_is_a_distribution_and_keeps_the_mean_unless_atoms_are_clipped():
    probability, reward, discount = some(40)
    reward, discount = reward.clamp(-1, 1), 0.8 * discount
    projected = project(probability, ATOMS, reward, discount)
    assert torch.allclose(projected.sum(dim=-1), torch.ones(40, dtype=torch.float64))
    assert torch.allclose(projected @ ATOMS, reward + discount * (probability @ ATOMS))


def test_at_the_end_of_an_episode_all_mass_lies_on_the_reward():
    probability, _, _ = some(1)
    end = project(probability, ATOMS, torch.tensor([2.0]), torch.tensor([0.0]))
    assert float(end[0, 30]) == pytest.approx(1.0)  # -10 + 30 * 0.4


def test_in_single_precision_no_mass_is_lost_at_the_edges():
    probability, reward, discount = (x.float() for x in some(200))
    projected = project(probability, ATOMS.float(), 3 * reward, discount)
    assert torch.allclose(projected.sum(dim=-1), torch.ones(200), atol=1e-5)


def test_the_divergence_of_a_distribution_from_itself_is_zero_and_empty_atoms_add_nothing():
    p = torch.tensor([[0.5, 0.5, 0.0]])
    q = torch.tensor([[0.25, 0.5, 0.25]])
    assert float(divergence(q, q.log())) == pytest.approx(0.0)
    assert float(divergence(p, q.log())) == pytest.approx(0.5 * math.log(2))
