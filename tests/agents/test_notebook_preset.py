"""The preset `notebook` against the authors' notebook, written down a second time from its description."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import Tensor
from torch.nn import functional

from visr import agents
from visr import config as configuration
from visr.config import RunConfig, presets
from visr.envs.grid.env import GridVectorEnv
from visr.envs.grid.world import GridWorld
from visr.errors import UserError
from visr.ops import sphere
from visr.training.learner import Learner
from visr.types import EnvSpec, Unroll

STATES, ACTIONS, T, B = 100, 4, 39, 32


def test_the_preset_has_the_notebooks_constants():
    config = presets.get("notebook")
    agent, training = config.agent, config.training
    assert (agent.num_features, agent.gpi_samples, agent.gpi_distribution) == (5, 10, "uniform")
    assert (agent.gamma, agent.epsilon, agent.n_step, agent.target_period) == (0.95, 0.1, 1, 1)
    assert (agent.hidden_sizes, agent.phi_layers) == ((100, 100), 1)
    assert (agent.psi_learning_rate, agent.phi_learning_rate) == (1e-4, 1e-3)
    assert agent.learning_rate_decay == "none"
    # the mean over 5 cumulants divides psi's gradient by 5
    assert (agent.psi_adam_epsilon, agent.phi_adam_epsilon) == (5 * 1e-5, 1e-8)
    assert (training.unroll_length, training.batch_size, training.num_envs) == (40, 32, 32)
    assert training.num_steps == 30_000 * 32 * 40
    assert (config.grid.max_episode_steps, config.grid.same_starts) == (39, True)


def random_unroll(seed: int) -> Unroll:
    rng = torch.Generator().manual_seed(seed)
    never = torch.zeros(T, B, dtype=torch.bool)
    return Unroll(
        observation=torch.randint(STATES, (T + 1, B), generator=rng),
        action=torch.randint(ACTIONS, (T, B), generator=rng),
        reward=torch.zeros(T, B),
        terminated=never,
        truncated=never,
        is_reset=never,
        w=sphere.uniform(B, d=5, generator=rng),
        previous_action=torch.full((B,), -1),
        memory=torch.zeros(B, 0),
    )


def notebooks_losses(phi: list[Tensor], psi: list[Tensor], unroll: Unroll) -> tuple[Tensor, Tensor]:
    """Its two losses: phi [100 + 1, 5 + 1], psi [100 + 5 + 1, 100 + 1, 20 + 1], as matrices and biases."""
    one_hot = functional.one_hot(unroll.observation, STATES).float()
    w = unroll.w.expand(T + 1, B, 5)
    hidden = torch.cat([one_hot, w], dim=-1)
    for weight, bias in zip(psi[0:4:2], psi[1:4:2], strict=True):
        hidden = (hidden @ weight + bias).relu()
    values = (hidden @ psi[4] + psi[5]).reshape(T + 1, B, 5, ACTIONS)
    features = (one_hot @ phi[0] + phi[1]).relu() @ phi[2] + phi[3]
    features = functional.normalize(features, dim=-1)[1:]
    loss_phi = (1 - (features * w[1:]).sum(dim=-1)).mean()
    q = torch.einsum("tbpa,tbp->tba", values, w)
    best = q[1:].argmax(dim=-1)
    at = lambda x, a: x.gather(3, a[..., None, None].expand(T, B, 5, 1)).squeeze(3)  # noqa: E731
    y = (features + 0.95 * at(values[1:], best)).detach()
    per_cumulant = (at(values[:-1], unroll.action) - y).square().mean(dim=(0, 1))
    return loss_phi, per_cumulant.mean()


def test_updates_are_the_notebooks():
    # Its two Adams in turn, psi's first, on its own losses; three updates of the same unrolls.
    config = presets.get("notebook")
    torch.manual_seed(0)
    agent = agents.new_visr(config.agent, EnvSpec(Discrete(STATES), ACTIONS))
    ours = copy.deepcopy(agent.state_dict())
    by_action = lambda x: x.reshape(ACTIONS, 5, -1).transpose(0, 1).reshape(20, -1)  # noqa: E731
    psi = [
        torch.cat([ours["psi.observation.weight"], ours["psi.task.weight"].T]),
        ours["psi.task.bias"],
        ours["psi.body.0.weight"].T,
        ours["psi.body.0.bias"],
        by_action(ours["psi.readout.weight"]).T,
        by_action(ours["psi.readout.bias"]).flatten(),
    ]
    phi = [
        ours["phi.observation.weight"],
        ours["phi.bias"],
        ours["phi.readout.weight"].T,
        ours["phi.readout.bias"],
    ]
    psi, phi = ([x.clone().requires_grad_() for x in of] for of in (psi, phi))
    of_psi = torch.optim.Adam(psi, lr=1e-4, eps=1e-5)
    of_phi = torch.optim.Adam(phi, lr=1e-3, eps=1e-8)
    learner = Learner(agent, total_updates=30_000)
    for seed in range(3):
        unroll = random_unroll(seed)
        learner.update(unroll)
        for optimiser, which in ((of_psi, 1), (of_phi, 0)):
            optimiser.zero_grad()
            notebooks_losses(phi, psi, unroll)[which].backward()
            optimiser.step()
    after = agent.state_dict()
    assert (after["psi.task.weight"] - ours["psi.task.weight"]).abs().max() > 1e-4
    assert_close = functools.partial(torch.testing.assert_close, rtol=1e-4, atol=2e-6)
    assert_close(after["psi.observation.weight"], psi[0][:STATES])
    assert_close(after["psi.task.weight"], psi[0][STATES:].T)
    assert_close(after["psi.body.0.weight"], psi[2].T)
    assert_close(by_action(after["psi.readout.weight"]), psi[4].T)
    assert_close(after["phi.observation.weight"], phi[0])
    assert_close(after["phi.readout.weight"], phi[2].T)


def test_every_episode_begins_in_the_environments_first_cell():
    env = GridVectorEnv(GridWorld(10, 10), 6, max_episode_steps=3, same_starts=True)
    first, _ = env.reset(seed=1)
    rng = np.random.default_rng(0)
    seen: list[np.ndarray] = []
    seen += [env.step(rng.integers(4, size=6))[0] for _ in range(5)]
    saved = env.state()
    seen += [env.step(rng.integers(4, size=6))[0] for _ in range(7)]
    assert np.array_equal(seen[3], first)
    assert np.array_equal(seen[7], first)
    resumed = GridVectorEnv(GridWorld(10, 10), 6, max_episode_steps=3, same_starts=True)
    resumed.reset(seed=2)
    resumed.load_state(saved)
    after = [resumed.step(np.zeros(6, np.int64))[0] for _ in range(3)]
    assert np.array_equal(after[-1], first)


def test_phi_cannot_have_more_layers_than_there_are():
    with pytest.raises(UserError, match="phi_layers = 3 is more than the 2 layers"):
        configuration.replace(RunConfig(), phi_layers=3)
