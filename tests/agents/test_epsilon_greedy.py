"""Epsilon-greedy actions; and GPI's reference formula, by hand and on small worlds solved exactly."""

import numpy as np
import pytest
import torch

from tests.reference import gpi_values
from visr.agents.epsilon_greedy_actor import epsilon_greedy

GAMMA, STATES, ACTIONS, FEATURES, POLICIES = 0.9, 8, 3, 4, 5


class World:
    """A random MDP whose successor features and values come from linear algebra."""

    def __init__(self, seed: int, deterministic: bool):
        self.random = np.random.default_rng(seed)
        concentration = np.full(STATES, 0.3)
        self.p = self.random.dirichlet(concentration, size=(STATES, ACTIONS))  # [S, A, S']
        if deterministic:
            self.p = np.eye(STATES)[self.p.argmax(-1)]
        self.phi = self.random.normal(size=(STATES, ACTIONS, FEATURES))

    def policy(self) -> np.ndarray:
        """Each state's action, at random: [S]."""
        return self.random.integers(ACTIONS, size=STATES)

    def psi(self, policy: np.ndarray) -> np.ndarray:
        """psi(s, a) = phi(s, a) + gamma E psi(s', policy(s')): [S, A, F]."""
        here = np.arange(STATES)
        p, phi = self.p[here, policy], self.phi[here, policy]
        on_policy = np.linalg.solve(np.eye(STATES) - GAMMA * p, phi)
        return self.phi + GAMMA * self.p @ on_policy


def test_gpi_values_by_hand():
    # two policies, two actions, w = (1, 2):   policy 0: (1, 0).w = 1, (0, 3).w = 6   policy 1: 5, 4
    psi = torch.tensor([[[1.0, 0.0], [0.0, 3.0]], [[5.0, 0.0], [0.0, 2.0]]])
    assert torch.equal(gpi_values(psi, torch.tensor([1.0, 2.0])), torch.tensor([5.0, 6.0]))


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_gpi_is_never_worse_than_its_best_policy(seed: int, deterministic: bool):
    world = World(seed, deterministic)
    psi = np.stack([world.psi(world.policy()) for _ in range(POLICIES)])  # [P, S, A, F]
    improved = 0
    for w in world.random.normal(size=(10, FEATURES)):
        judged = gpi_values(torch.from_numpy(psi), torch.from_numpy(w))
        q_best = (psi @ w).max(axis=0)
        np.testing.assert_allclose(judged, q_best, rtol=1e-12, atol=1e-12)
        q_gpi = world.psi(judged.argmax(-1).numpy()) @ w
        assert (q_gpi >= q_best - 1e-9).all()
        improved += (q_gpi > q_best + 1e-6).any()
    assert improved  # GPI does better than its best policy somewhere


def test_epsilon_zero_is_greedy():
    random = torch.Generator().manual_seed(0)
    values = torch.randn(1000, 4, generator=random)
    actions = epsilon_greedy(values, 0.0, random)
    assert actions.dtype == torch.int64
    assert torch.equal(actions, values.argmax(-1))


@pytest.mark.parametrize(("epsilon", "greedy_share"), [(1.0, 0.25), (0.2, 0.85)])
def test_epsilon_is_the_share_of_uniformly_random_actions(epsilon: float, greedy_share: float):
    # of four actions the greedy one is taken with probability 1 - epsilon + epsilon / 4
    values = torch.tensor([0.0, 0.0, 1.0, 0.0]).expand(100, 200, 4)
    actions = epsilon_greedy(values, epsilon, torch.Generator().manual_seed(0))
    assert actions.shape == (100, 200)
    shares = torch.bincount(actions.flatten(), minlength=4) / actions.numel()
    expected = torch.full((4,), (1 - greedy_share) / 3)
    expected[2] = greedy_share
    torch.testing.assert_close(shares, expected, atol=0.012, rtol=0)


def test_the_same_seed_gives_the_same_actions():
    values = torch.zeros(50, 4)
    first, second = (
        epsilon_greedy(values, 0.5, torch.Generator().manual_seed(3)) for _ in range(2)
    )
    assert torch.equal(first, second)
