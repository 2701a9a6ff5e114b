"""Running statistics of observations: correct, fixed while acting, saved with the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from visr.agents.visr import Visr
from visr.networks.mlp_torsos import Normaliser, Vector
from visr.training.loop import new_agent
from visr.types import EnvSpec


def test_statistics_by_hand():
    # seen 1, 3 and then 8:   mean 4, variance (9 + 1 + 16) / 3 = 26/3
    normaliser = Normaliser(1)
    normaliser(torch.tensor([[1.0], [3.0]]))
    last = normaliser(torch.tensor([[8.0]]))
    assert normaliser.mean.item() == pytest.approx(4)
    assert last.item() == pytest.approx(4 / np.sqrt(26 / 3))


def test_statistics_of_batches_equal_those_of_all_rows():
    random = np.random.default_rng(0)
    shapes = [(7, 3), (1, 3), (4, 5, 3), (2, 1, 2, 3), (50, 3)]
    scale, shift = np.array([1e-2, 1.0, 1e3]), np.array([5.0, -2.0, 1e5])
    batches = [random.normal(size=shape) * scale + shift for shape in shapes]
    normaliser = Normaliser(3)
    for batch in batches:
        normaliser(torch.as_tensor(batch, dtype=torch.float64))
    rows = np.concatenate([batch.reshape(-1, 3) for batch in batches])
    assert normaliser.count == len(rows)
    assert np.allclose(normaliser.mean, rows.mean(axis=0), rtol=1e-12)
    assert np.allclose(normaliser.spread / len(rows), rows.var(axis=0), rtol=1e-9)
    with torch.no_grad():
        seen = normaliser(torch.as_tensor(rows)).numpy()
    assert np.allclose(seen, (rows - rows.mean(axis=0)) / rows.std(axis=0))
    assert np.allclose(seen.mean(axis=0), 0, atol=1e-9)
    assert np.allclose(seen.std(axis=0), 1)


def test_statistics_change_while_learning_and_not_while_acting():
    normaliser = Normaliser(2)
    normaliser(torch.randn(10, 2))
    before = {name: value.clone() for name, value in normaliser.state_dict().items()}
    with torch.no_grad():
        normaliser(100 * torch.randn(10, 2))
    with torch.inference_mode():
        normaliser(100 * torch.randn(2))
    assert all(torch.equal(value, before[name]) for name, value in normaliser.state_dict().items())
    normaliser(torch.randn(10, 2))
    assert normaliser.count == 20


def test_without_statistics_observations_are_unchanged():
    with torch.no_grad():
        assert Normaliser(2)(torch.tensor([[0.5, -7.0]])).tolist() == [[0.5, -7.0]]


def test_constant_observations_stay_finite_and_outliers_are_clipped():
    normaliser = Normaliser(2)
    constant = torch.tensor([[3.0, -1e6]]).expand(20, 2)
    for _ in range(3):
        assert torch.equal(normaliser(constant), torch.zeros(20, 2))
    with torch.no_grad():
        assert normaliser(torch.tensor([[4.0, 1e6]])).tolist() == [[10, 10]]
        assert normaliser(torch.tensor([[2.0, -1e7]])).tolist() == [[-10, -10]]


def test_gradients_pass_through_and_not_into_the_statistics():
    layer = Vector(2, 4, fan_in=2, normalise=True)
    layer(torch.randn(8, 2)).sum().backward()
    assert layer.layer.weight.grad is not None
    assert layer.normaliser is not None
    assert not layer.normaliser.mean.requires_grad
    assert [name for name, _ in layer.named_parameters()] == ["layer.weight"]


def test_a_layer_without_normaliser_reads_raw_observations():
    layer = Vector(2, 4, fan_in=2, normalise=False)
    vectors = 1e3 * torch.randn(8, 2)
    assert torch.equal(layer(vectors), vectors @ layer.layer.weight.T)
    assert list(layer.state_dict()) == ["layer.weight"]


def agent(tiny: Any, **fields: Any) -> Visr:
    space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    config = tiny(env="CartPole-v1", hidden_sizes=(8, 8), **fields)
    made = new_agent(config, EnvSpec(space, 2))
    assert isinstance(made, Visr)
    return made


def test_statistics_are_saved_with_the_weights_and_restored(tiny: Any):
    seen = torch.randn(16, 3) * 5 + 2
    first, second = agent(tiny, seed=1), agent(tiny, seed=2)
    first.phi(seen)
    names = [name for name in first.state_dict() if "normaliser" in name]
    assert {name.split(".")[0] for name in names} == {"phi", "psi"}
    second.load_state_dict(first.state_dict())
    with torch.no_grad():
        assert torch.equal(first.phi(seen), second.phi(seen))
    assert torch.allclose(
        second.state_dict()["phi.observation.normaliser.mean"], seen.double().mean(dim=0)
    )


def test_the_target_network_copies_the_statistics(tiny: Any):
    learner = agent(tiny, target_period=5)
    assert learner.target_psi is not None
    learner.psi.first_step(torch.randn(9, 3))
    learner.refresh_target()
    assert learner.target_psi.state_dict()["observation.normaliser.count"] == 9


def test_normalisation_can_be_switched_off(tiny: Any):
    names = agent(tiny, normalise_observations=False).state_dict()
    assert not [name for name in names if "normaliser" in name]
