"""VISR: its losses, its target network, GPI and task inference."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor

from tests.reference import gpi_values, n_step_targets
from visr import agents
from visr import config as configuration
from visr.agents.base import BehaviourModel
from visr.agents.visr import Visr
from visr.config import AgentConfig, RunConfig, presets
from visr.ops import sphere
from visr.training.learner import Learner
from visr.types import EnvSpec, Transitions, Unroll


def readout(psi: Any) -> Any:
    """The last layer of the grid's psi."""
    return psi.readout


SPEC = EnvSpec(Discrete(9), num_actions=4)


def agent_config(**fields: Any) -> AgentConfig:
    fields = {"hidden_sizes": (16, 16), "target_period": 2, **fields}
    return configuration.replace(RunConfig(), **fields).agent


def new_agent(**fields: Any) -> Visr:
    torch.manual_seed(0)
    return agents.new_visr(agent_config(**fields), SPEC)


def parameters_after_an_update(agent: Visr, unroll: Unroll) -> dict[str, Tensor]:
    agent = copy.deepcopy(agent)
    Learner(agent, total_updates=10).update(unroll)
    return agent.state_dict()


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_phi_has_unit_length():
    phi = new_agent().phi(torch.arange(9))
    torch.testing.assert_close(phi.norm(dim=-1), torch.ones(9))


def test_phi_of_a_long_batch_is_phi_of_each_state():
    agent, states = new_agent(), torch.randint(9, (5, 7))
    one_by_one = torch.stack([agent.phi(s.view(1))[0] for s in states.flatten()])
    torch.testing.assert_close(agent.phi(states), one_by_one.view(5, 7, 5))


def test_pre_training_does_not_use_the_reward(unroll: Unroll):
    blinded = unroll._replace(reward=torch.full_like(unroll.reward, torch.nan))
    agent = new_agent()
    seeing, blind = (parameters_after_an_update(agent, u) for u in (unroll, blinded))
    assert same(seeing, blind)


def test_an_update_changes_phi_and_psi(unroll: Unroll):
    agent = new_agent()
    after = parameters_after_an_update(agent, unroll)
    for name, before in agent.state_dict().items():
        assert torch.equal(before, after[name]) == name.startswith("target_psi."), name


def test_random_features_never_change_but_psi_does(unroll: Unroll):
    agent = new_agent(features="random")
    after = parameters_after_an_update(agent, unroll)
    before = agent.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before if k.startswith("phi."))
    assert not torch.equal(before["psi.readout.weight"], after["psi.readout.weight"])


@pytest.mark.parametrize("preset", ["minatar", "atari-small"])
def test_random_features_of_images_never_change(preset: str):
    # The same states have the same phi while learning, acting and regressing, before and after updates.
    config = configuration.replace(presets.get(preset), features="random").agent
    spec = EnvSpec(Box(0, 255, (4, 20, 20), np.uint8), num_actions=4)
    torch.manual_seed(0)
    agent = agents.new_visr(config, spec)
    learner, states = Learner(agent, total_updates=10), torch.randint(256, (9, 4, 20, 20)).byte()
    learner.update(image_unroll(spec))  # fixes the centre
    before, psi = agent.phi(states).clone(), agent.psi.readout.clone()  # pyright: ignore
    for _ in range(3):
        learner.update(image_unroll(spec))
    assert not torch.equal(agent.psi.readout, psi)  # pyright: ignore
    assert torch.equal(agent.phi(states), before)
    with torch.inference_mode():
        assert torch.equal(agent.phi(states), before)
        reached = agent.cumulant(Transitions(states[:1]))
    torch.testing.assert_close(reached, before[:1])


def image_unroll(spec: EnvSpec) -> Unroll:
    """Six random steps in four environments, brighter from one unroll to the next."""
    steps, envs = 6, 4
    brightest = int(torch.randint(40, 256, ()))
    return Unroll(
        observation=torch.randint(brightest, (steps + 1, envs, 4, 20, 20)).byte(),
        action=torch.randint(spec.num_actions, (steps, envs)),
        reward=torch.zeros(steps, envs),
        terminated=torch.zeros(steps, envs, dtype=torch.bool),
        truncated=torch.zeros(steps, envs, dtype=torch.bool),
        is_reset=torch.zeros(steps, envs, dtype=torch.bool),
        w=sphere.uniform(envs, d=5),
        memory=torch.zeros(envs, 0),
        previous_action=torch.full((envs,), -1),
    )


def test_no_gradient_of_psis_loss_reaches_phi(unroll: Unroll):
    agent = new_agent()
    agent.losses(unroll).psi.backward()
    assert all(p.grad is None for p in agent.phi.parameters())
    assert all(p.grad is not None for p in agent.psi.parameters())


def test_no_gradient_of_phis_loss_reaches_psi(unroll: Unroll):
    agent = new_agent()
    agent.losses(unroll).phi.backward()
    assert all(p.grad is None for p in agent.psi.parameters())


def test_the_losses_are_algorithm_1(unroll: Unroll):
    # One step, by hand: y = phi(s') + gamma psi(s', a', w), a' = argmax psi(s', a, w) . w
    agent = new_agent(target_period=1, gamma=0.9, n_step=1)
    psi_loss, phi_loss, count = 0.0, 0.0, 0
    for t in range(6):
        for b in range(4):
            w, s, s_next = unroll.w[b], unroll.observation[t, b], unroll.observation[t + 1, b]
            phi = agent.phi(s_next.view(1))[0]
            here, there = (agent.psi(x.view(1), w.view(1, 5))[0] for x in (s, s_next))
            y = phi + 0.9 * there[(there @ w).argmax()]
            psi_loss += (here[unroll.action[t, b]] - y).square().sum().item()
            phi_loss -= (phi @ w).item()
            count += 1
    losses = agent.losses(unroll)
    assert losses.psi.item() == pytest.approx(psi_loss / count, rel=1e-4)
    assert losses.phi.item() == pytest.approx(phi_loss / count, rel=1e-4)


def test_the_current_cumulant_is_phi_of_the_state_before_the_step(unroll: Unroll):
    nexts, current = new_agent(cumulant="next"), new_agent(cumulant="current")
    shifted = unroll._replace(observation=unroll.observation.roll(-1, dims=0))
    assert current.losses(shifted).phi.item() != nexts.losses(shifted).phi.item()
    expected = -(current.phi(unroll.observation[:-1]) * unroll.w).sum(-1).mean()
    torch.testing.assert_close(current.losses(unroll).phi, expected)


def test_steps_that_only_reset_do_not_change_the_update(unroll: Unroll):
    is_reset = unroll.is_reset.clone()
    is_reset[3, 2] = True
    masked = unroll._replace(is_reset=is_reset)
    other = masked._replace(action=masked.action.clone())
    other.action[3, 2] = (other.action[3, 2] + 1) % 4
    agent = new_agent()
    assert same(parameters_after_an_update(agent, masked), parameters_after_an_update(agent, other))
    assert agent.losses(masked).psi.item() != agent.losses(unroll).psi.item()


def test_the_target_at_a_terminal_step_is_the_cumulant(unroll: Unroll):
    terminated = unroll.terminated.clone()
    terminated[:] = True
    psi, phi = torch.randn(7, 4, 4, 5), torch.randn(6, 4, 5)
    ended = n_step_targets(psi, phi, unroll._replace(terminated=terminated), 0.9, n=3)
    torch.testing.assert_close(ended, phi)


def test_the_target_network_is_refreshed_every_target_period_updates(unroll: Unroll):
    agent = new_agent(target_period=2)
    learner = Learner(agent, total_updates=10)
    learner.update(unroll)
    assert agent.target_psi is not None
    assert not same(agent.target_psi.state_dict(), agent.psi.state_dict())
    learner.update(unroll)
    assert same(agent.target_psi.state_dict(), agent.psi.state_dict())


def test_targets_bootstrap_from_the_target_network(unroll: Unroll):
    agent = new_agent(target_period=1000)
    before = agent.losses(unroll).psi.item()
    assert agent.target_psi is not None
    with torch.no_grad():
        readout(agent.target_psi).bias.add_(1.0)
    assert agent.losses(unroll).psi.item() != pytest.approx(before, rel=1e-3)


def test_returns_use_no_step_after_a_time_out(unroll: Unroll):
    # n = 3, gamma = .5, one feature, psi = 8 everywhere, c = 1, 2, 4, 8, ...; time limit at t = 1:
    # G_0 = 1 + .5 (2 + .5 * 8) = 4     G_1 = 2 + .5 * 8 = 6     G_2 = 4 + .5 (8 + .5 (16 + .5 * 8)) = 13
    truncated = unroll.truncated.clone()
    truncated[1] = True
    psi = torch.full((7, 4, 4, 1), 8.0)
    cumulant = 2.0 ** torch.arange(6.0).view(6, 1, 1).expand(6, 4, 1)
    timed = unroll._replace(truncated=truncated, w=torch.ones(4, 1))
    target = n_step_targets(psi, cumulant, timed, gamma=0.5, n=3)
    torch.testing.assert_close(target[:3, 0, 0], torch.tensor([4.0, 6.0, 13.0]))


def test_linear_decay_ends_at_a_learning_rate_of_zero(unroll: Unroll):
    agent = new_agent(learning_rate_decay="linear")
    learner = Learner(agent, total_updates=2)
    learner.update(unroll)
    half = readout(agent.psi).weight.clone()
    learner.update(unroll)
    assert not torch.equal(half, readout(agent.psi).weight)
    last = copy.deepcopy(agent.state_dict())
    learner.update(unroll)
    assert torch.equal(last["psi.readout.weight"], readout(agent.psi).weight)


def test_phi_is_frozen_after_phi_updates(unroll: Unroll):
    agent = new_agent()
    learner = Learner(agent, total_updates=10, phi_updates=2)
    for _ in range(2):
        learner.update(unroll)
    rested = copy.deepcopy(agent.state_dict())
    learner.update(unroll)
    assert torch.equal(rested["phi.readout.weight"], readout(agent.phi).weight)
    assert not torch.equal(rested["psi.readout.weight"], readout(agent.psi).weight)


def test_action_values_are_the_maximum_of_psi_times_w_over_policies():
    agent = new_agent()
    states, w = torch.randint(9, (8,)), sphere.uniform(8, d=5)
    policies = sphere.uniform(8, 3, d=5)
    psi = torch.stack([agent.psi(states, policies[:, i]) for i in range(3)])
    values = agent.action_values(agent.psi.first_step(states), policies, agent.psi.fold(w))
    torch.testing.assert_close(values, gpi_values(psi, w))


def test_w_is_the_first_of_the_policies():
    w = sphere.uniform(6, d=5)
    drawn = new_agent(gpi_samples=3).sample_policies(w, None)
    assert drawn.shape == (6, 4, 5)
    assert torch.equal(drawn[:, 0], w)
    assert new_agent(gpi=False).sample_policies(w, None).shape == (6, 1, 5)
    assert new_agent().sample_policies(w, None, gpi=False).shape == (6, 1, 5)


@pytest.mark.parametrize(("distribution", "cosine"), [("vmf", 0.65), ("uniform", 0.0)])
def test_gpi_neighbours_follow_the_configured_distribution(distribution: str, cosine: float):
    # A_5(5) = 0.65 is the mean cosine of vMF neighbours at kappa = 5
    w = sphere.uniform(2000, d=5, generator=torch.Generator().manual_seed(0))
    agent = new_agent(gpi_distribution=distribution)
    drawn = agent.sample_policies(w, torch.Generator().manual_seed(1))
    assert (drawn[:, 1:] * w[:, None]).sum(-1).mean().item() == pytest.approx(cosine, abs=0.01)


def test_visr_is_a_behaviour_model():
    model: BehaviourModel = new_agent()
    assert model.task_size == 5
    assert model.cumulant(Transitions(torch.arange(9))).shape == (9, 5)


def test_the_task_of_one_goal_is_phi_of_the_goal():
    agent = new_agent()
    phi = agent.cumulant(Transitions(torch.tensor([3])))
    torch.testing.assert_close(agent.task_from(phi, torch.ones(1)), phi[0])


def test_the_task_of_a_reward_in_the_span_of_phi_is_its_direction():
    agent, w = new_agent(), sphere.uniform(d=5)
    phi = agent.cumulant(Transitions(torch.arange(9))).double()
    torch.testing.assert_close(agent.task_from(phi, 3 * phi @ w.double()), w.double())
