"""Generalised policy improvement, on numbers worked by hand and on small worlds solved exactly."""

import numpy as np
import pytest
import torch

from visr.ops import gpi

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


def test_values_by_hand():
    # two policies, two actions, w = (1, 2):   policy 0: (1, 0).w = 1, (0, 3).w = 6   policy 1: 5, 4
    psi = torch.tensor([[[1.0, 0.0], [0.0, 3.0]], [[5.0, 0.0], [0.0, 2.0]]])
    assert torch.equal(gpi.values(psi, torch.tensor([1.0, 2.0])), torch.tensor([5.0, 6.0]))


def test_every_state_of_a_batch_is_judged_by_its_own_task():
    random = torch.Generator().manual_seed(0)
    psi, w = torch.randn(5, 2, 3, 4, 6, generator=random), torch.randn(2, 3, 6, generator=random)
    values = gpi.values(psi, w)
    assert values.shape == (2, 3, 4)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(values[i, j], gpi.values(psi[:, i, j], w[i, j]))


def test_with_one_policy_gpi_is_that_policys_opinion():
    random = torch.Generator().manual_seed(1)
    psi, w = torch.randn(1, 7, 4, 6, generator=random), torch.randn(7, 6, generator=random)
    expected = torch.einsum("baf,bf->ba", psi[0], w)
    torch.testing.assert_close(gpi.values(psi, w), expected)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_gpi_is_never_worse_than_its_best_policy(seed: int, deterministic: bool):
    world = World(seed, deterministic)
    psi = np.stack([world.psi(world.policy()) for _ in range(POLICIES)])  # [P, S, A, F]
    improved = 0
    for w in world.random.normal(size=(10, FEATURES)):
        judged = gpi.values(torch.from_numpy(psi), torch.from_numpy(w))
        q_best = (psi @ w).max(axis=0)
        np.testing.assert_allclose(judged, q_best, rtol=1e-12, atol=1e-12)
        q_gpi = world.psi(judged.argmax(-1).numpy()) @ w
        assert (q_gpi >= q_best - 1e-9).all()
        improved += (q_gpi > q_best + 1e-6).any()
    assert improved  # the law is not kept by merely copying the best


def test_values_of_a_fixed_policy_are_linear_in_w():
    world = World(0, deterministic=False)
    policy = world.policy()
    psi = torch.from_numpy(world.psi(policy))[None]
    w1, w2 = (torch.from_numpy(world.random.normal(size=FEATURES)) for _ in range(2))
    sum_of_values = 2 * gpi.values(psi, w1) - 3 * gpi.values(psi, w2)
    torch.testing.assert_close(gpi.values(psi, 2 * w1 - 3 * w2), sum_of_values)
    # and they are the policy's true values: q = r + gamma P q(s', policy(s')) with r = phi . w1
    q = gpi.values(psi, w1).numpy()
    bellman = world.phi @ w1.numpy() + GAMMA * world.p @ q[np.arange(STATES), policy]
    np.testing.assert_allclose(q, bellman)


def test_epsilon_zero_is_greedy():
    random = torch.Generator().manual_seed(0)
    values = torch.randn(1000, 4, generator=random)
    actions = gpi.epsilon_greedy(values, 0.0, random)
    assert actions.dtype == torch.int64
    assert torch.equal(actions, values.argmax(-1))


@pytest.mark.parametrize(("epsilon", "greedy_share"), [(1.0, 0.25), (0.2, 0.85)])
def test_epsilon_is_the_share_of_uniformly_random_actions(epsilon: float, greedy_share: float):
    # of four actions the greedy one is taken with probability 1 - epsilon + epsilon / 4
    values = torch.tensor([0.0, 0.0, 1.0, 0.0]).expand(100, 200, 4)
    actions = gpi.epsilon_greedy(values, epsilon, torch.Generator().manual_seed(0))
    assert actions.shape == (100, 200)
    shares = torch.bincount(actions.flatten(), minlength=4) / actions.numel()
    expected = torch.full((4,), (1 - greedy_share) / 3)
    expected[2] = greedy_share
    torch.testing.assert_close(shares, expected, atol=0.012, rtol=0)


def test_the_same_seed_takes_the_same_actions():
    values = torch.zeros(50, 4)
    first, second = (
        gpi.epsilon_greedy(values, 0.5, torch.Generator().manual_seed(3)) for _ in range(2)
    )
    assert torch.equal(first, second)
