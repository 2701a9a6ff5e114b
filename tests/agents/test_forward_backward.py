"""Forward-backward representations: their loss, what it converges to, and their tasks."""

import math

import pytest
import torch
from gymnasium.spaces import Discrete

from visr import agents
from visr import config as configuration
from visr.agents import task_sampling
from visr.agents.forward_backward import ForwardBackward
from visr.agents.replay_successor_features import TaskBatch
from visr.config import RunConfig, presets
from visr.errors import UserError
from visr.networks.transition_features.encoder import orthonormality
from visr.types import EnvSpec, Transitions

GAMMA = 0.5


def agent_for(num_states: int = 2, num_actions: int = 1, size: int = 4) -> ForwardBackward:
    torch.manual_seed(0)
    config = configuration.replace(RunConfig(), algorithm="fb", num_features=size, gamma=GAMMA)
    agent = agents.new(
        config.agent, EnvSpec(Discrete(num_states), num_actions=num_actions), config.replay
    )
    assert isinstance(agent, ForwardBackward)
    return agent


def chain_batch(agent: ForwardBackward, state: torch.Tensor, w: torch.Tensor) -> TaskBatch:
    """Steps of two states in turn, with one action."""
    after = 1 - state
    return TaskBatch(
        state,
        torch.zeros_like(state),
        agent.cumulant(Transitions(after, terminated=torch.zeros_like(state, dtype=torch.bool))),
        torch.full((len(state),), GAMMA),
        after,
        w,
    )


def test_the_loss_is_off_diagonal_minus_diagonal_plus_orthonormality():
    agent, w = agent_for(), task_sampling.scaled(torch.randn(1, 4))
    batch = chain_batch(agent, torch.tensor([0, 1]), w)
    with torch.no_grad():
        forward = agent.psi.of_steps(agent.psi.first_step(batch.observation), batch.action, w).psi[
            0
        ]
        later = agent.target_psi.greedy(agent.target_psi.first_step(batch.next_observation), w).psi[
            0
        ]
        b = agent.chi(Transitions(batch.next_observation))
        m, following = forward @ b.T, later @ b.T
        off = (m - GAMMA * following)[[0, 1], [1, 0]].square().mean() / 2
        expected = off - (m[0, 0] + m[1, 1]) / 2 + orthonormality(b)
    torch.testing.assert_close(agent.losses(batch).total.detach(), expected)


def test_forward_times_backward_becomes_the_occupancy_of_a_chain():
    # 0, 1, 0, 1, ...: from state 0 the steps reach 1 at once and every second step after it, so the
    # discounted visits are 1 / (1 - gamma^2) to state 1 and gamma / (1 - gamma^2) to state 0. Both are
    # half of the data, so that F . B is twice the visits.
    agent, rng = agent_for(), torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(agent.parameter_groups()["psi"], 3e-3)
    w = task_sampling.scaled(torch.randn(4, 4, generator=rng))
    for _ in range(600):
        batch = chain_batch(agent, torch.randint(2, (64,), generator=rng), w)
        optimiser.zero_grad()
        agent.losses(batch).total.backward()
        optimiser.step()
        agent.move_target()
    with torch.no_grad():
        forward = agent.psi.heads(agent.psi.first_step(torch.tensor([0])), w[:1])[0, 0]
        occupancy = agent.chi(Transitions(torch.tensor([0, 1]))) @ forward / 2
    visits = torch.tensor([GAMMA, 1.0]) / (1 - GAMMA**2)
    torch.testing.assert_close(occupancy, visits, atol=0.15, rtol=0)


def test_the_task_is_the_mean_of_the_reward_times_b():
    agent = agent_for(size=2)
    z = agent.task_from(torch.eye(2), torch.tensor([3.0, 4.0]))
    torch.testing.assert_close(z, math.sqrt(2) * torch.tensor([0.6, 0.8]))
    with pytest.raises(UserError, match="nothing in common"):
        agent.task_from(torch.eye(2), torch.zeros(2))


def test_b_contains_the_end_of_an_episode():
    agent = agent_for()
    steps = Transitions(torch.tensor([0, 0]), terminated=torch.tensor([False, True]))
    b = agent.cumulant(steps)
    torch.testing.assert_close(b[1] - b[0], agent.chi.at_end)  # pyright: ignore


def test_a_new_stage_starts_forward_and_backward_with_new_weights():
    agent = agent_for()
    torch.manual_seed(1)
    fresh = agents.new(agent.config, agent.spec, agent.replay)
    assert isinstance(fresh, ForwardBackward)
    agent.start_afresh(fresh)
    expected = fresh.state_dict()
    for name, tensor in agent.state_dict().items():
        assert torch.equal(tensor, expected[name.removeprefix("target_")]), name


def test_forward_backward_has_defaults_of_its_own():
    config = presets.for_environment("visr/Grid-v0", "fb")
    assert config.agent.algorithm == "fb"
    assert (
        config.replay.transitions_per_update
        > presets.get("replay-grid").replay.transitions_per_update
    )
