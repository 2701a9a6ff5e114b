"""Tasks that reward visited states."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from gymnasium.spaces import Discrete

from tests.reference import n_step_targets
from visr import agents
from visr import config as configuration
from visr.agents.extensions import hindsight_tasks
from visr.agents.extensions.hindsight_tasks import SeededGenerators
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.errors import UserError
from visr.ops import sphere
from visr.types import EnvSpec, Unroll

NewAgent = Callable[..., Visr]


def new_generators(seed: int = 0) -> SeededGenerators:
    torch.manual_seed(seed)
    return SeededGenerators()


def test_tasks_are_unit_vectors():
    phi = sphere.uniform(40, 16, d=8)
    w = hindsight_tasks.tasks(phi, 100, torch.Generator().manual_seed(0))
    torch.testing.assert_close(w.norm(dim=-1), torch.ones(100))


def test_a_task_rewards_one_of_two_clusters_of_states():
    # Two clusters of states: whatever stretch is rewarded, phi . w is highest in one of them.
    torch.manual_seed(0)
    near = sphere.normalise(torch.tensor([1.0, 0, 0, 0]) + 0.1 * torch.randn(20, 4, 4))
    far = sphere.normalise(torch.tensor([0, 1.0, 0, 0]) + 0.1 * torch.randn(20, 4, 4))
    phi = torch.cat([near, far], dim=1)
    w = hindsight_tasks.tasks(phi, 200, torch.Generator().manual_seed(1))
    gap = (near.flatten(0, 1) @ w.T).mean(dim=0) - (far.flatten(0, 1) @ w.T).mean(dim=0)
    assert (gap.abs() > 0.1).float().mean() > 0.7
    assert 0.2 < (gap > 0).float().mean() < 0.8


def test_tasks_lie_nearer_to_phi_than_uniform_ones_do():
    d = 32
    phi = sphere.uniform(40, 16, d=d, generator=torch.Generator().manual_seed(2))
    drawn = hindsight_tasks.tasks(phi, 400, torch.Generator().manual_seed(3))
    even = sphere.uniform(400, d=d, generator=torch.Generator().manual_seed(4))
    closest = [(phi.flatten(0, 1) @ w.T).amax(dim=0).mean() for w in (drawn, even)]
    assert closest[0] > closest[1] + 0.05


@pytest.mark.parametrize("mix", [0.0, 1.0])
def test_the_mix_is_the_share_of_unrolls_replaced(mix: float):
    w, phi = sphere.uniform(50, d=5), sphere.uniform(10, 50, d=5)
    changed, replaced = hindsight_tasks.replace_tasks(w, phi, mix, torch.Generator())
    assert replaced.float().mean() == mix
    assert torch.equal(changed, w) == (mix == 0.0)


def test_phis_loss_uses_the_task_that_was_pursued(unroll: Unroll, new_agent: NewAgent):
    plain = new_agent()
    mixed = new_agent(task_distribution="visited", task_mix=1.0)
    shared = plain.state_dict()
    mixed.load_state_dict({**mixed.state_dict(), **shared})
    assert plain.losses(unroll).phi.item() == mixed.losses(unroll).phi.item()
    assert plain.losses(unroll).psi.item() != mixed.losses(unroll).psi.item()


def test_generators_continue_from_a_checkpoint():
    generators = new_generators()
    generators.next()
    copy = new_generators(seed=1)
    copy.load_state_dict({k: v.clone() for k, v in generators.state_dict().items()})
    ours, theirs = (torch.rand(3, generator=d.next()) for d in (generators, copy))
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, torch.rand(3, generator=generators.next()))


def test_off_policy_returns_end_before_the_first_action_that_is_not_greedy(unroll: Unroll):
    # One feature, w = 1, psi = 8 for action 0 (greedy everywhere), 0 for others; c = 1; gamma = .5; n = 3.
    # Actions 0, 0, 1, 0, 0, 0: from t = 0 the return uses steps 0 and 1, then bootstraps.
    psi = torch.zeros(7, 4, 4, 1)
    psi[:, :, 0] = 8.0
    action = torch.zeros(6, 4, dtype=torch.int64)
    action[2] = 1
    probe = unroll._replace(action=action, w=torch.ones(4, 1))
    off_policy = torch.tensor([True, True, True, False])
    cut = hindsight_tasks.cut_off_policy(probe, psi, off_policy)
    target = n_step_targets(psi, torch.ones(6, 4, 1), cut, gamma=0.5, n=3)
    assert target[0, 0, 0].item() == pytest.approx(1 + 0.5 * (1 + 0.5 * 8))
    assert target[1, 0, 0].item() == pytest.approx(1 + 0.5 * 8)
    # The last column acted for w itself: all three steps count.
    assert target[0, 3, 0].item() == pytest.approx(1 + 0.5 * (1 + 0.5 * (1 + 0.5 * 8)))


def test_split_unrolls_hold_the_same_steps(unroll: Unroll):
    reset = torch.zeros(6, 4, dtype=torch.bool)
    reset[1, 2] = True  # the part after it begins an episode
    whole = unroll._replace(is_reset=reset)
    short = hindsight_tasks.split_unroll(whole, 2)
    assert short.action.shape == (2, 12)
    for piece in range(3):
        for env in range(4):
            column, then = piece * 4 + env, slice(2 * piece, 2 * piece + 2)
            assert torch.equal(
                short.observation[:, column], whole.observation[2 * piece : 2 * piece + 3, env]
            )
            for name in ("action", "reward", "terminated", "truncated", "is_reset"):
                assert torch.equal(getattr(short, name)[:, column], getattr(whole, name)[then, env])
            assert torch.equal(short.w[column], whole.w[env])
    assert torch.equal(short.previous_actions[0], whole.previous_actions[:-1:2].flatten())
    assert short.previous_action[1 * 4 + 2] == -1


def test_one_step_losses_do_not_change_when_unrolls_are_split(unroll: Unroll, new_agent: NewAgent):
    # The same tasks for the same steps: psi's loss is a mean over steps, however they are grouped.
    fields = {"task_distribution": "visited", "task_mix": 0.0, "bonus": "rnd", "n_step": 1}
    whole = new_agent(**fields).losses(unroll)
    cut = new_agent(**fields, task_steps=1, unroll_length=6).losses(unroll)
    torch.testing.assert_close(cut.psi, whole.psi)
    torch.testing.assert_close(cut.phi, whole.phi)
    torch.testing.assert_close(cut.metrics["bonus"], whole.metrics["bonus"])


def test_every_split_unroll_gets_its_own_task(unroll: Unroll):
    short = hindsight_tasks.split_unroll(unroll, 1)
    w, _ = hindsight_tasks.replace_tasks(short.w, sphere.uniform(6, 4, d=5), 1.0, torch.Generator())
    assert len({tuple(row) for row in w.tolist()}) > 20  # two may draw the same step


def test_task_steps_are_refused_with_an_lstm():
    config = configuration.replace(
        RunConfig(), task_distribution="visited", task_steps=1, core="lstm"
    )
    with pytest.raises(UserError, match='core="none"'):
        agents.new(config.agent, EnvSpec(Discrete(9), num_actions=4))
