"""Successor features of the library's policies by least squares."""

import pytest
import torch
from gymnasium.spaces import Discrete

from visr import agents
from visr import config as configuration
from visr.agents.lstd import distinct, fitted_readouts
from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.config import RunConfig
from visr.networks.factored_successor import FactoredSuccessorFeatures
from visr.networks.replay_trunks import StateTrunk
from visr.types import EnvSpec, Transitions, Unroll

GAMMA = 0.9
NUM_STATES, LEFT, RIGHT = 6, 0, 1


def corridor() -> Transitions:
    """Both actions in every cell of a corridor of six; its right end ends the episode."""
    state = torch.arange(NUM_STATES - 1).repeat(2)
    action = torch.arange(2).repeat_interleave(NUM_STATES - 1)
    reached = (state + 2 * action - 1).clamp(min=0)
    return Transitions(reached, state, action, reached == NUM_STATES - 1)


def network(width: int = 64) -> FactoredSuccessorFeatures:
    torch.manual_seed(0)
    return FactoredSuccessorFeatures(StateTrunk(NUM_STATES), 2, NUM_STATES, width, scale=2.0)


def fitted_psi(
    psi: FactoredSuccessorFeatures, w: torch.Tensor, layer: torch.Tensor
) -> torch.Tensor:
    """h(s, a)^T W for all states and actions, [S, actions, d]."""
    hidden = psi.first_step(torch.arange(NUM_STATES))
    h = psi.joined(hidden, w.expand(NUM_STATES, -1))
    return torch.cat([h, torch.ones(NUM_STATES, 2, 1)], dim=-1) @ layer


@torch.no_grad()
def test_fitted_psi_solves_the_bellman_equation_of_the_greedy_policy():
    psi, steps, library = network(), corridor(), torch.randn(3, NUM_STATES)
    chi = torch.eye(NUM_STATES)[steps.next_observation]
    layers = fitted_readouts(psi, library, steps, chi, GAMMA)
    assert layers.shape == (3, 65, NUM_STATES)
    for w, layer in zip(library, layers, strict=True):
        found = fitted_psi(psi, w, layer)
        hidden = psi.first_step(torch.arange(NUM_STATES))
        greedy = (psi.heads(hidden, w.expand(NUM_STATES, -1)) @ w).argmax(dim=-1)
        after = found[steps.next_observation, greedy[steps.next_observation]]
        y = chi + GAMMA * (~steps.terminated)[:, None] * after  # pyright: ignore
        torch.testing.assert_close(found[steps.observation, steps.action], y, rtol=1e-2, atol=1e-2)


@torch.no_grad()
def test_where_the_episode_ends_psi_is_the_features_of_the_last_step():
    psi, steps, library = network(), corridor(), torch.randn(1, NUM_STATES)
    chi = torch.eye(NUM_STATES)[steps.next_observation]
    found = fitted_psi(psi, library[0], fitted_readouts(psi, library, steps, chi, GAMMA)[0])
    last = found[NUM_STATES - 2, RIGHT]
    torch.testing.assert_close(last, torch.eye(NUM_STATES)[-1], rtol=0, atol=1e-2)


def test_repeated_steps_between_numbered_states_are_counted():
    # step   0 -> 1   0 -> 1   1 -> 2 (end)   0 -> 1
    steps = Transitions(
        torch.tensor([1, 1, 2, 1]),
        torch.tensor([0, 0, 1, 0]),
        torch.tensor([1, 1, 1, 1]),
        torch.tensor([False, False, True, False]),
    )
    kept, chi, count = distinct(steps, torch.tensor([[1.0], [1.0], [2.0], [1.0]]))
    assert kept.next_observation.tolist() == [1, 2]
    assert chi.tolist() == [[1.0], [2.0]]
    assert count.tolist() == [3, 1]
    assert kept.terminated is not None
    assert kept.terminated.tolist() == [False, True]


def test_steps_between_vectors_stay_as_they_are():
    steps = Transitions(torch.randn(3, 2), torch.randn(3, 2), torch.zeros(3, dtype=torch.int64))
    kept, chi, count = distinct(steps, torch.randn(3, 4))
    assert kept is steps
    assert len(chi) == 3
    assert count.tolist() == [1, 1, 1]


# ---- acting with a fitted library


def agent_of(library_size: int, **fields: object) -> ReplaySuccessorFeatures:
    torch.manual_seed(0)
    settings = {"algorithm": "replay", "num_features": 6, "gamma": GAMMA, "psi_width": 32}
    settings |= {"library_size": library_size, "library_steps": 100, **fields}
    config = configuration.replace(RunConfig(), **settings)
    spec = EnvSpec(Discrete(NUM_STATES), num_actions=2)
    agent = agents.new(config.agent, spec, config.replay)
    assert isinstance(agent, ReplaySuccessorFeatures)
    agent.library[:3] = torch.randn(3, 6)
    return agent


def recorded() -> Unroll:
    """Random steps in the corridor, 8 unrolls of 20 steps."""
    torch.manual_seed(1)
    seen, action = torch.zeros(21, 8, dtype=torch.int64), torch.randint(2, (20, 8))
    for t in range(20):
        seen[t + 1] = (seen[t] + 2 * action[t] - 1).clamp(0, NUM_STATES - 1)
    no = torch.zeros(20, 8, dtype=torch.bool)
    nothing, memory = torch.full((8,), -1), torch.zeros(8, 0)
    return Unroll(seen, action, torch.zeros(20, 8), no, no, no, torch.zeros(8, 6), nothing, memory)


@torch.inference_mode()
def values(agent: ReplaySuccessorFeatures, w: torch.Tensor) -> torch.Tensor:
    tasks, states = w.expand(NUM_STATES, -1), torch.arange(NUM_STATES)
    policies, readout = agent.sample_policies(tasks, None, True), agent.readout(tasks, True)
    assert readout.weight.shape[-1] in (1, policies.shape[1])
    return agent.action_values(agent.psi.first_step(states), policies, readout)


@torch.inference_mode()
def test_gpi_asks_every_policy_with_its_own_last_layer():
    agent, w = agent_of(library_size=3), torch.randn(6)
    agent.fit(recorded())
    agent.fit_library(recorded())
    assert agent.library_readout is not None
    hidden = agent.psi.first_step(torch.arange(NUM_STATES))
    own = agent.psi.heads(hidden, w.expand(NUM_STATES, -1)) @ w
    fitted = [
        fitted_psi(agent.psi, task, layer) @ w
        for task, layer in zip(agent.library, agent.library_readout, strict=True)
    ]
    expected = torch.stack([own, *fitted]).amax(dim=0)
    torch.testing.assert_close(values(agent, w), expected, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_a_library_with_room_left_has_all_states_and_acts_without_ws_own_policy():
    agent, w = agent_of(library_size=4), torch.randn(6)
    assert agent.sample_policies(w[None], None, True).shape[1] == 4  # w and three tasks
    agent.fit(recorded())
    agent.fit_library(recorded())
    assert agent.sample_policies(w[None], None, True).shape[1] == 3
    assert agent.sample_policies(w[None], None, False).shape[1] == 1
    assert agent.library_readout is not None
    fitted = [
        fitted_psi(agent.psi, task, layer) @ w
        for task, layer in zip(agent.library[:3], agent.library_readout, strict=False)
    ]
    torch.testing.assert_close(
        values(agent, w), torch.stack(fitted).amax(dim=0), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("library_size", [3, 4])
@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize("gpi", [False, True, None])
@torch.inference_mode()
def test_values_of_many_tasks_are_those_of_each(
    library_size: int, is_fitted: bool, gpi: bool | None
):
    agent, tasks = agent_of(library_size), torch.randn(5, 6)
    agent.fit(recorded())
    if is_fitted:
        agent.fit_library(recorded())
    hidden = agent.psi.first_step(torch.arange(NUM_STATES))
    each = torch.stack([agent.values_of(hidden, w, None, gpi) for w in tasks])
    torch.testing.assert_close(agent.values_of_tasks(hidden, tasks, None, gpi), each)


@torch.inference_mode()
def test_fitted_layers_are_dropped_when_psi_learns_on():
    agent, w = agent_of(library_size=4), torch.randn(6)
    before = values(agent, w)
    agent.fit_library(recorded())
    assert not torch.equal(values(agent, w), before)
    agent.forget_fitted_library()
    assert torch.equal(values(agent, w), before)


def test_without_library_steps_an_agent_has_the_tensors_of_older_versions():
    agent = agent_of(library_size=4, library_steps=0)
    agent.fit_library(recorded())
    assert "library_readout" not in agent.state_dict()
    assert "library_readout" in agent_of(library_size=4).state_dict()
