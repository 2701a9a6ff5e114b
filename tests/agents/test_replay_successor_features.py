"""The replay learner: its network, its features, its tasks."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from visr import agents
from visr import config as configuration
from visr.agents import task_sampling
from visr.agents.replay_successor_features import ReplaySuccessorFeatures, TaskBatch
from visr.config import RunConfig, presets
from visr.errors import UserError
from visr.networks.plane_trunk import PlaneTrunk, find_agent
from visr.networks.replay_trunks import SmoothStatesTrunk, StateTrunk
from visr.networks.transition_features.base import whitening
from visr.networks.transition_features.events import PlaneEvents
from visr.types import EnvSpec, Transitions, Unroll

STATES = EnvSpec(Discrete(9), num_actions=4)
PLANES = EnvSpec(Box(0, 1, (3, 6, 6), np.uint8), num_actions=3)
VECTORS = EnvSpec(Box(-np.inf, np.inf, (2,), np.float32), num_actions=2)


def agent_for(spec: EnvSpec, **fields: object) -> ReplaySuccessorFeatures:
    torch.manual_seed(0)
    settings = {"algorithm": "replay", "num_features": 12, "gamma": 0.9, **fields}
    config = configuration.replace(RunConfig(), **settings)
    agent = agents.new(config.agent, spec, config.replay)
    assert isinstance(agent, ReplaySuccessorFeatures)
    return agent


def unroll_of(observation: torch.Tensor, **fields: torch.Tensor) -> Unroll:
    """Steps through observations [T + 1, B, ...] that neither end nor reset."""
    shape = (len(observation) - 1, observation.shape[1])
    no = torch.zeros(shape, dtype=torch.bool)
    unroll = Unroll(
        observation,
        torch.zeros(shape, dtype=torch.int64),
        torch.zeros(shape),
        no,
        no,
        no,
        torch.zeros(shape[1], 12),
        torch.full((shape[1],), -1),
        torch.zeros(shape[1], 0),
    )
    return unroll._replace(**fields)


# ---- psi


def test_folded_values_equal_psi_times_w():
    agent, w = agent_for(STATES), torch.randn(5, 12)
    hidden = agent.psi.first_step(torch.arange(5))
    expected = (agent.psi.heads(hidden, w) * w.unsqueeze(1)).sum(dim=-1)
    values = agent.psi.gpi_values(hidden, w.unsqueeze(1), agent.psi.fold(w))
    torch.testing.assert_close(values, expected, rtol=1e-4, atol=1e-4)


def test_greedy_actions_and_their_psi_agree_with_the_heads():
    agent, w = agent_for(STATES), torch.randn(3, 12)
    hidden = agent.psi.first_step(torch.arange(9))
    found = agent.psi.greedy(hidden, w)
    for m in range(3):
        psi = agent.psi.heads(hidden, w[m].expand(9, -1))
        value, action = (psi @ w[m]).max(dim=1)
        torch.testing.assert_close(found.value[m], value, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(found.psi[m], psi[torch.arange(9), action], rtol=1e-4, atol=1e-4)


def test_the_scale_of_a_reward_does_not_change_the_policy():
    agent, w = agent_for(STATES), torch.randn(1, 12)
    hidden = agent.psi.first_step(torch.arange(9))
    values = [agent.psi.greedy(hidden, scale * w).value for scale in (1.0, 50.0)]
    torch.testing.assert_close(values[1], 50 * values[0], rtol=1e-3, atol=1e-3)


def test_actions_of_equal_value_have_equal_shares_in_soft_targets():
    agent, w = agent_for(STATES), torch.randn(3, 12)
    agent.psi.state.weight.data[:] = agent.psi.state.weight.data[: agent.psi.width].repeat(4, 1)
    agent.psi.state.bias.data[:] = agent.psi.state.bias.data[: agent.psi.width].repeat(4)
    hidden = agent.psi.first_step(torch.arange(9))
    greedy, soft = (agent.psi.greedy(hidden, w, temperature=t) for t in (0.0, 0.3))
    torch.testing.assert_close(soft.psi, greedy.psi)
    torch.testing.assert_close(soft.value, greedy.value)


def test_soft_targets_mix_actions_by_their_values():
    agent, w = agent_for(STATES), torch.randn(3, 12)
    hidden = agent.psi.first_step(torch.arange(9))
    greedy, cold, warm = (agent.psi.greedy(hidden, w, temperature=t) for t in (0.0, 1e-6, 1.0))
    torch.testing.assert_close(cold.psi, greedy.psi)
    assert (warm.value < greedy.value).all()
    along = torch.einsum("mnd,md->mn", warm.psi, w)
    torch.testing.assert_close(along, warm.value, rtol=1e-4, atol=1e-4)


def test_a_task_without_values_has_soft_targets():
    agent = agent_for(STATES)
    soft = agent.psi.greedy(
        agent.psi.first_step(torch.arange(9)), torch.zeros(1, 12), temperature=0.1
    )
    assert soft.psi.isfinite().all()
    assert (soft.value == 0).all()


def test_smooth_states_are_read_by_their_features():
    agent, w = agent_for(STATES, smooth_states=True), torch.randn(3, 12)
    observation = torch.randint(9, (65, 4), generator=torch.Generator().manual_seed(0))
    agent.fit(unroll_of(observation))
    trunk = agent.psi.observation
    assert isinstance(trunk, SmoothStatesTrunk)
    chi = agent.chi(Transitions(torch.arange(9)))
    torch.testing.assert_close(trunk.features, chi * trunk.slowness)
    read = torch.nn.functional.normalize(w * trunk.slowness) * math.sqrt(12)
    torch.testing.assert_close(agent.psi.of_tasks(w), agent.psi.task(read))


def test_runs_without_the_setting_keep_their_table_of_states():
    for kind in ("auto", "laplacian"):
        agent = agent_for(STATES, transition_features=kind)
        assert type(agent.psi.observation) is StateTrunk


def test_gpi_takes_the_best_of_the_own_policy_and_the_library():
    agent, w = agent_for(STATES, library_size=5), torch.randn(2, 12)
    agent.library.copy_(torch.randn(5, 12))
    policies = agent.sample_policies(w, None, gpi=True)
    assert policies.shape == (2, 6, 12)
    hidden, readout = agent.psi.first_step(torch.arange(2)), agent.psi.fold(w)
    each = agent.psi.policy_values(hidden, policies, readout)
    best = each.max(dim=1).values
    torch.testing.assert_close(agent.action_values(hidden, policies, readout), best)
    own = agent.sample_policies(w, None, gpi=False)
    torch.testing.assert_close(agent.action_values(hidden, own, readout), each[:, 0])


def test_psi_learns_the_sum_of_a_chain_of_states():
    # Two states in turn, one action: psi(s) = chi(s') + gamma psi(s'), solved by hand below.
    agent = agent_for(EnvSpec(Discrete(2), num_actions=1), num_features=4, gamma=0.5)
    chi = agent.cumulant(Transitions(torch.tensor([0, 1])))
    optimiser = torch.optim.Adam(agent.psi.parameters(), 3e-3)
    w = task_sampling.scaled(torch.randn(8, 4))
    batch = TaskBatch(
        torch.tensor([0, 1]),
        torch.tensor([0, 0]),
        chi[[1, 0]],
        torch.full((2,), 0.5),
        torch.tensor([1, 0]),
        w,
    )
    for _ in range(1_000):
        optimiser.zero_grad()
        agent.losses(batch).total.backward()
        optimiser.step()
        agent.move_target()
    # psi(0) = chi(1) + .5 chi(0) + .25 chi(1) + ... = (chi(1) + .5 chi(0)) / (1 - .25)
    expected = (chi[1] + 0.5 * chi[0]) / 0.75
    psi = agent.psi.heads(agent.psi.first_step(torch.tensor([0])), w[:1])[0, 0]
    torch.testing.assert_close(psi, expected, atol=0.05, rtol=0.05)


def test_nothing_follows_a_step_that_ends_the_episode():
    # With discount 0 the target is the cumulant alone: psi that equals it has no error, wherever s' is.
    agent, w = agent_for(STATES), task_sampling.scaled(torch.randn(1, 12))
    state, action = torch.tensor([0]), torch.tensor([1])
    psi = agent.psi.of_steps(agent.psi.first_step(state), action, w).psi[0].detach()
    for after in (3, 7):
        ended = TaskBatch(state, action, psi, torch.zeros(1), torch.tensor([after]), w)
        assert float(agent.losses(ended).total.detach()) == 0
        goes_on = ended._replace(discount=torch.ones(1))
        assert float(agent.losses(goes_on).total.detach()) > 0


# ---- features


def test_whitened_rows_have_the_identity_as_second_moments():
    rows = torch.randn(5_000, 3) @ torch.randn(3, 3)
    white = rows @ whitening(rows)
    torch.testing.assert_close(white.T @ white / len(rows), torch.eye(3), atol=1e-3, rtol=0)


def test_every_reward_of_states_is_linear_in_enough_features():
    agent = agent_for(STATES)
    seen = torch.randint(9, (40, 8), generator=torch.Generator().manual_seed(0))
    agent.fit(unroll_of(seen))
    chi, reward = agent.cumulant(Transitions(torch.arange(9))), torch.randn(9)
    w = torch.linalg.lstsq(chi, reward.unsqueeze(1), driver="gelsd").solution
    torch.testing.assert_close((chi @ w)[:, 0], reward, atol=1e-3, rtol=0)


def test_vectors_have_a_constant_and_the_end_as_features():
    agent = agent_for(VECTORS)
    agent.fit(unroll_of(torch.randn(30, 8, 2)))
    steps = Transitions(torch.zeros(3, 2), terminated=torch.tensor([False, True, False]))
    chi = agent.cumulant(steps)
    assert chi[:, 0].tolist() == [1, 1, 1]
    assert chi[0, 1] == chi[2, 1] == 0 < chi[1, 1]


def test_too_few_features_for_a_vector_are_refused():
    with pytest.raises(UserError, match="num_features = 4 is too small"):
        agent_for(VECTORS, num_features=4)


def planes(*objects: tuple[int, int, int]) -> torch.Tensor:
    board = torch.zeros(3, 6, 6, dtype=torch.uint8)
    for plane, row, column in objects:
        board[plane, row, column] = 1
    return board


def test_events_tell_what_was_lost_and_beside_what():
    # Plane 1 loses its object next to plane 0, which stands still; plane 2 moves by one cell.
    before = planes((0, 2, 2), (1, 2, 3), (2, 5, 5))
    after = planes((0, 2, 2), (2, 5, 4))
    chi = PlaneEvents((3, 6, 6), 60, gamma=0.9)
    assert happened(chi, before, after) == {
        "plane 1 lost",
        "plane 1 vanished",
        "plane 1 vanished beside plane 0",
    }


def happened(chi: PlaneEvents, before: torch.Tensor, after: torch.Tensor) -> set[str]:
    """The events of a step, in words."""
    counts = chi.counts(Transitions(after[None], before[None]))[0]
    chi.event = torch.arange(60).where(torch.arange(60) < len(counts), torch.tensor(-1))
    return {name for name, count in zip(chi.names(), counts.tolist(), strict=False) if count}


def test_objects_that_meet_between_them_vanish_together():
    # A bullet flies right and what it hits moves left: two cells apart before, both are gone afterwards.
    chi = PlaneEvents((3, 6, 6), 60, gamma=0.9, rare=True)
    before = planes((0, 2, 1), (1, 2, 3), (2, 0, 0))
    both = {f"plane {c} {what}" for c in (0, 1) for what in ("lost", "vanished")}
    after = planes((2, 0, 0))
    assert happened(chi, before, after) == both | {"plane 0 and plane 1 vanished together"}
    far = planes((0, 2, 1), (1, 2, 4), (2, 0, 0))
    assert happened(chi, far, after) == both


@pytest.mark.parametrize(
    ("rare", "times", "is_feature"),
    [(True, 12, True), (True, 4, False), (False, 12, False), (False, 41, True)],
)
def test_an_event_seen_often_enough_becomes_a_feature(rare: bool, times: int, is_feature: bool):
    chi = PlaneEvents((3, 6, 6), 60, gamma=0.9, rare=rare)
    kept, lost = planes((0, 2, 2), (1, 2, 3)), planes((0, 2, 2))
    seen = [kept, kept, kept, lost] * times + [kept] * 200
    chi.fit(unroll_of(torch.stack(seen)[:, None]))
    assert ("plane 1 lost" in chi.names()) == is_feature


def test_a_moving_object_is_neither_lost_nor_new():
    chi = PlaneEvents((3, 6, 6), 60, gamma=0.9)
    steps = Transitions(planes((1, 3, 4))[None], planes((1, 3, 3))[None])
    assert chi.counts(steps).sum() == 0


_RANGES = ((0, 3), (1, 5), (0, 6), (0, 6))


def test_the_agent_is_the_plane_that_moves_as_the_actions_say():
    random = np.random.default_rng(0)
    before, after, actions = [], [], []
    for _ in range(600):
        action, place, other, later = (int(random.integers(*r)) for r in _RANGES)
        before.append(planes((0, 3, other), (1, 2, place)))
        after.append(planes((0, 3, later), (1, 2, place + action - 1)))
        actions.append(action)
    found = find_agent(torch.stack(before), torch.tensor(actions), torch.stack(after))
    assert found == 1
    still = torch.stack(before)
    assert find_agent(still, torch.tensor(actions), still) == -1


def test_objects_are_seen_relative_to_the_agent():
    trunk = PlaneTrunk((3, 6, 6))
    trunk.agent_plane.fill_(0)
    with torch.no_grad():
        trunk.table.weight[: 3 * 36] = 0  # forget where things are on the board
        here, there = planes((0, 1, 1), (2, 1, 3)), planes((0, 4, 2), (2, 4, 4))
        other = planes((0, 1, 1), (2, 1, 4))
        rows = trunk(torch.stack([here, there, other]))
    torch.testing.assert_close(rows[0], rows[1])
    assert not torch.allclose(rows[0], rows[2])


# ---- tasks


def test_practised_tasks_have_one_length():
    agent, rng = agent_for(STATES), torch.Generator().manual_seed(0)
    chi = torch.randn(50, 12)

    def recorded(count: int, num_samples: int) -> torch.Tensor:
        return chi[torch.randint(50, (count, num_samples), generator=rng)]

    w = task_sampling.practised(agent, 40, recorded, rng)
    assert w.shape == (40, 12)
    torch.testing.assert_close(w.norm(dim=1), torch.full((40,), math.sqrt(12)))


def test_events_that_the_agent_cannot_bring_about_are_practised_less():
    agent = agent_for(PLANES)
    agent.chi.event[:3] = torch.arange(3)  # pyright: ignore
    agent.rate.fill_(0.01)
    agent.lift[:3] = torch.tensor([1.0, 3.0, 1.02])
    weights = task_sampling.event_weights(agent)
    assert weights[1] > 0.8
    assert weights[0] > 0
    assert weights[3:].sum() == 0


def test_the_library_of_planes_is_one_task_for_each_event():
    agent, rng = agent_for(PLANES), torch.Generator().manual_seed(0)
    agent.chi.event[[0, 1, -1]] = torch.tensor([4, 5, 24])  # pyright: ignore
    agent.library.copy_(task_sampling.library(agent, lambda n, k: torch.zeros(n, k, 12), rng))
    known = agent.known_tasks
    assert known.shape == (3, 12)
    assert known[0].argmax() == 0
    assert known[2, -1] < 0  # avoid the end


@pytest.mark.parametrize("name", ["replay-grid", "replay-vectors", "replay-minatar"])
def test_presets_of_the_replay_learner_choose_it(name: str):
    assert presets.get(name).agent.algorithm == "replay"
