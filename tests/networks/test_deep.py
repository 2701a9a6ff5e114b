"""phi and psi behind a torso: memory, GPI through heads, one MLP per cumulant, centring."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn
from torch.nn import functional

from tests.reference import gpi_values
from visr import config as configuration
from visr import pretraining
from visr.agents.epsilon_greedy_actor import EpsilonGreedyActor
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.networks.deep import DeepFeatures, DeepSuccessorFeatures
from visr.networks.mlp_torsos import MlpTorso
from visr.ops import sphere
from visr.training import checkpoint
from visr.training.loop import Loop
from visr.types import EnvSpec

STATES, ACTIONS, FEATURES = 9, 4, 5


def new_psi(lstm: bool) -> DeepSuccessorFeatures:
    torch.manual_seed(0)
    psi = DeepSuccessorFeatures(MlpTorso(Discrete(STATES), (16, 12)), FEATURES, ACTIONS, lstm=lstm)
    nn.init.normal_(psi.bias)  # initially zero
    return psi


def life(length: int = 40, batch: int = 3) -> tuple[Tensor, Tensor]:
    """Observations and previous actions, with episodes that begin at different times."""
    torch.manual_seed(1)
    previous = torch.randint(ACTIONS, (length, batch))
    previous[0, 0] = previous[11, 0] = previous[12, 1] = previous[length - 1, 2] = -1
    return torch.randint(STATES, (length, batch)), previous


# --- memory


def test_an_unroll_equals_acting_step_by_step():
    psi, (observation, previous) = new_psi(lstm=True), life()
    memory = torch.randn(3, psi.memory_size)
    hidden, last = psi.trunk(observation, previous, memory)
    for t in range(len(observation)):
        step, memory = psi.step(observation[t], previous[t], memory)
        torch.testing.assert_close(step, hidden[t])
    torch.testing.assert_close(memory, last)


def test_the_lstm_memory_is_cleared_where_an_episode_starts():
    psi, (observation, previous) = new_psi(lstm=True), life()
    hidden, _ = psi.trunk(observation, previous, torch.randn(3, psi.memory_size))
    fresh, _ = psi.trunk(observation[11:, :1], previous[11:, :1], torch.zeros(1, psi.memory_size))
    torch.testing.assert_close(hidden[11:, :1], fresh)
    torch.testing.assert_close(hidden[11, 0], psi.first_step(observation[11, :1])[0])


def test_the_last_action_is_an_input_except_at_a_start():
    psi = new_psi(lstm=True)
    seen, memory = torch.full((ACTIONS + 1,), 4), torch.zeros(ACTIONS + 1, psi.memory_size)
    hidden, _ = psi.step(seen, torch.arange(-1, ACTIONS), memory)
    assert len({tuple(row) for row in hidden.tolist()}) == ACTIONS + 1
    with torch.no_grad():
        assert psi.core is not None
        psi.core.input[:, -ACTIONS:] = 0  # without weights for actions
    blind, _ = psi.step(seen, torch.arange(-1, ACTIONS), memory)
    torch.testing.assert_close(blind, hidden[:1].expand_as(blind))


def test_psi_without_an_lstm_has_no_memory():
    psi, (observation, previous) = new_psi(lstm=False), life()
    hidden, memory = psi.trunk(observation, previous, torch.zeros(3, 0))
    assert memory.shape == (3, 0)
    torch.testing.assert_close(hidden, psi.torso(observation))


def test_the_epsilon_greedy_actor_clears_its_memory_only_where_an_episode_starts():
    fields = {"core": "lstm", "hidden_sizes": (16, 16), "gpi": False}
    torch.manual_seed(0)
    agent = Visr(configuration.replace(RunConfig(), **fields).agent, EnvSpec(Discrete(9), ACTIONS))
    w, one = sphere.uniform(1, d=5), np.array([True])

    def values(path: list[int], starts: list[int]) -> Tensor:
        actor = EpsilonGreedyActor(agent, 1, epsilon=0.0)
        actor.pursue(w)
        for t, state in enumerate(path):
            actor.act(np.array([state]), one & (t in starts))
        return actor.values

    assert torch.equal(values([1, 2, 3, 4], starts=[0, 2]), values([3, 4], starts=[0]))
    assert not torch.equal(values([1, 2, 3, 4], starts=[0]), values([3, 4], starts=[0]))
    expected = agent.psi(torch.tensor([3]), w) @ w[0]
    torch.testing.assert_close(values([1, 2, 3], starts=[0, 2]), expected)


# --- heads


@pytest.mark.parametrize("lstm", [False, True])
def test_gpi_through_heads_equals_full_forward_passes(lstm: bool):
    psi, (observation, previous) = new_psi(lstm), life(length=14)
    w, policies = sphere.uniform(3, d=FEATURES), sphere.uniform(3, 6, d=FEATURES)
    memory = torch.randn(3, psi.memory_size)
    for t in range(len(observation)):
        passes = []
        for i in range(6):
            hidden, _ = psi.step(observation[t], previous[t], memory)
            passes.append(psi.heads(hidden, policies[:, i]))
        full = torch.stack(passes)
        hidden, memory = psi.step(observation[t], previous[t], memory)
        values = psi.gpi_values(hidden, policies, psi.fold(w))
        torch.testing.assert_close(values, gpi_values(full, w))
        # Different policies are best for different actions.
        assert (full @ w[:, :, None]).argmax(dim=0).unique().numel() > 1


@pytest.mark.parametrize("lstm", [False, True])
def test_folding_w_into_the_readout_equals_forming_psi(lstm: bool):
    psi = new_psi(lstm)
    states, w, own = torch.arange(STATES), *sphere.uniform(2, STATES, d=FEATURES)
    hidden = psi.first_step(states)
    values = psi.gpi_values(hidden, own.unsqueeze(1), psi.fold(w))
    torch.testing.assert_close(values, (psi(states, own) @ w.unsqueeze(-1)).squeeze(-1))


def test_heads_equal_one_mlp_per_cumulant():
    psi, w = new_psi(lstm=False), sphere.uniform(STATES, d=FEATURES)
    hidden = psi.first_step(torch.arange(STATES))
    both = torch.cat([hidden, psi.task(w)], dim=-1)
    weight = torch.cat([psi.from_trunk.weight, psi.from_task.weight], dim=-1)
    out = psi.heads(hidden, w)
    for i in range(FEATURES):
        own = slice(256 * i, 256 * (i + 1))
        units = functional.linear(both, weight[own], psi.from_trunk.bias[own]).relu()
        torch.testing.assert_close(out[..., i], units @ psi.readout[i] + psi.bias[i])


@pytest.mark.parametrize("part", ["readout", "bias", "from_trunk", "from_task"])
def test_cumulants_share_no_head_parameters(part: str):
    psi, states, w = new_psi(lstm=True), torch.arange(STATES), sphere.uniform(STATES, d=FEATURES)
    before = psi(states, w)
    weight = getattr(psi, part) if part in ("readout", "bias") else getattr(psi, part).weight
    with torch.no_grad():
        weight.view(FEATURES, -1)[2] += 0.5
    changed = (psi(states, w) != before).any(dim=1)
    assert changed.any(dim=0).tolist() == [False, False, True, False, False]
    assert changed[:, 2].all()


def test_w_enters_the_heads_and_not_the_trunk():
    psi = new_psi(lstm=True)
    hidden = psi.first_step(torch.arange(STATES))
    a, b = (psi.heads(hidden, sphere.uniform(1, d=FEATURES).expand(STATES, -1)) for _ in range(2))
    assert not torch.isclose(a, b).all()
    per_state = psi.heads(hidden.expand(3, STATES, -1), torch.eye(FEATURES)[:1].expand(STATES, -1))
    assert per_state.shape == (3, STATES, ACTIONS, FEATURES)


# --- features


class IdentityTorso(nn.Module):
    """A torso that returns its input."""

    size = 6

    def forward(self, observation: Tensor) -> Tensor:
        return observation


def new_features(centre: Literal["latest", "batch"] | None) -> DeepFeatures:
    torch.manual_seed(0)
    return DeepFeatures(IdentityTorso(), FEATURES, centre)


@pytest.mark.parametrize("centre", [None, "latest", "batch"])
def test_phi_has_unit_length(centre: Literal["latest", "batch"] | None):
    phi, said = new_features(centre), torch.randn(7, 3, 6)
    torch.testing.assert_close(phi(said).norm(dim=-1), torch.ones(7, 3))
    with torch.no_grad():
        torch.testing.assert_close(phi(said).norm(dim=-1), torch.ones(7, 3))


def test_centred_features_ignore_what_all_images_of_a_batch_share():
    said, shared = torch.randn(7, 3, 6), 10 * torch.randn(6)
    for centre in ("latest", "batch"):
        same, moved = new_features(centre), new_features(centre)
        torch.testing.assert_close(moved(said + shared), same(said), rtol=1e-4, atol=1e-4)
    plain = new_features(None)
    assert (plain(said + shared) - plain(said)).abs().max() > 0.1


def test_random_features_keep_the_centre_of_the_first_batch_for_all_uses():
    phi = new_features("latest").requires_grad_(False)
    first, later = torch.randn(7, 3, 6), 5 + torch.randn(4, 3, 6)
    with torch.no_grad():
        phi(later)  # acting before the first update sets nothing
    expected = sphere.normalise((later - first.mean(dim=(0, 1))) @ phi.readout.weight.T)
    phi(first)
    torch.testing.assert_close(phi(later), expected)
    with torch.inference_mode():
        torch.testing.assert_close(phi(later[0, :1]), expected[0, :1])
    torch.testing.assert_close(phi.mean, first.mean(dim=(0, 1)))


def test_learned_features_are_the_same_for_learning_and_for_regression_right_after():
    phi = new_features("latest")
    for _ in range(2):
        batch = 5 * torch.randn(()) + torch.randn(7, 3, 6)
        learnt = phi(batch)
        with torch.inference_mode():
            torch.testing.assert_close(phi(batch), learnt)


def test_learning_subtracts_the_mean_of_the_batch():
    phi, said = new_features("batch"), torch.randn(7, 3, 6)
    expected = sphere.normalise((said - said.mean(dim=(0, 1))) @ phi.readout.weight.T)
    torch.testing.assert_close(phi(said), expected)


def test_acting_subtracts_the_running_mean_without_changing_it():
    phi, said = new_features("batch"), torch.randn(7, 3, 6)
    assert phi.mean is not None
    phi.mean.copy_(torch.arange(6.0))
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            for one in (said[0, :1], said[0, :2]):  # in batches of any size
                expected = sphere.normalise((one - torch.arange(6.0)) @ phi.readout.weight.T)
                torch.testing.assert_close(phi(one), expected)
    assert torch.equal(phi.mean, torch.arange(6.0))


def test_the_running_mean_moves_by_a_hundredth():
    # 0 -> 0.01 * 5 = 0.05 -> 0.99 * 0.05 + 0.01 * 5 = 0.0995
    phi = new_features("batch")
    for expected in (0.05, 0.0995):
        phi(torch.full((4, 6), 5.0))
        assert phi.mean is not None
        torch.testing.assert_close(phi.mean, torch.full((6,), expected))


def test_gradients_flow_through_the_batch_mean():
    # Adding one vector to all inputs changes nothing, so the gradients of a batch sum to 0.
    phi, said = new_features("batch"), torch.randn(7, 3, 6, requires_grad=True)
    (phi(said) * torch.randn(7, 3, FEATURES)).sum().backward()
    assert said.grad is not None
    assert said.grad.abs().max() > 0.01
    torch.testing.assert_close(said.grad.sum(dim=(0, 1)), torch.zeros(6), rtol=0, atol=1e-4)


@pytest.mark.parametrize("centre", ["latest", "batch"])
def test_the_centre_is_part_of_the_state(centre: str):
    fields = {"torso": "nips", "centred_features": True, "feature_centre": centre}
    config = configuration.replace(RunConfig(), **fields)
    spec = EnvSpec(Box(0, 255, (4, 20, 20), np.uint8), num_actions=3)
    assert "phi.mean" in Visr(config.agent, spec).state_dict()


# --- end to end


def test_an_lstm_trains_on_discrete_states(tmp_path: Path, tiny: Any):
    # 16 environments that time out within an unroll; with exact evaluation and snapshots
    fields = {"core": "lstm", "num_envs": 16, "batch_size": 8, "unroll_length": 10}
    fields |= {"max_episode_steps": 13, "hidden_sizes": (16, 16), "height": 4, "width": 4}
    config = tiny(**fields, num_steps=800, log_every=80, checkpoint_every=400, evaluate_every=800)
    run = pretraining.start(tmp_path / "run", config)
    tensors, counts = checkpoint.load(checkpoint.newest(run))
    assert counts["num_updates"] == 10
    fresh = Loop(config).agent.state_dict()
    for name in ("core.recurrent", "core.input", "readout", "task.0.weight", "torso.first.weight"):
        learnt = tensors[f"learner.agent.psi.{name}"]
        assert learnt.isfinite().all()
        assert not torch.equal(learnt, fresh[f"psi.{name}"]), name
    assert tensors["actor0.memory"].shape == (8, 512)
    assert len(run.evaluation.read_text().splitlines()) == 3

    checkpoint.newest(run).unlink()
    metrics = run.metrics.read_bytes()
    pretraining.resume(run.path)
    again, _ = checkpoint.load(checkpoint.newest(run))
    assert run.metrics.read_bytes() == metrics
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)
