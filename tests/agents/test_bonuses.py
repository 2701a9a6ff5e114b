"""Exploration bonuses: their scale, their gradients and where they enter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gymnasium.spaces import Discrete
from torch import Tensor, nn

from visr import config as configuration
from visr.agents.extensions import visr_plus
from visr.agents.extensions.bonuses import Bonus
from visr.agents.extensions.visr_plus import VisrPlus
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.training.learner import Learner
from visr.types import EnvSpec, Unroll

SPEC = EnvSpec(Discrete(9), num_actions=4)
KINDS = ("rnd", "particles")

NewAgent = Callable[..., Visr]
NewVisrPlus = Callable[..., VisrPlus]


def new_bonus(kind: str, **fields: object) -> Bonus:
    torch.manual_seed(0)
    config = configuration.replace(RunConfig(), hidden_sizes=(16, 16), bonus=kind, **fields).agent
    bonus = VisrPlus(config, SPEC).bonus
    assert bonus is not None
    return bonus


class Table(nn.Module):
    """phi as a table of points, so that distances are known."""

    def __init__(self, points: list[list[float]]) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.tensor(points))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.points[observation]


def chain(states: list[int], actions: list[int] | None = None) -> Unroll:
    """One unroll through these states."""
    length = len(states) - 1
    flag = torch.zeros(length, 1, dtype=torch.bool)
    return Unroll(
        observation=torch.tensor(states).unsqueeze(1),
        action=torch.tensor(actions or [0] * length).unsqueeze(1),
        reward=torch.zeros(length, 1),
        terminated=flag,
        truncated=flag,
        is_reset=flag.clone(),
        w=torch.tensor([[1.0, 0.0]]),
        previous_action=torch.tensor([-1]),
        memory=torch.empty(1, 0),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_bonus_adds_to_the_cumulant_along_w_only(
    kind: str, unroll: Unroll, new_agent: NewAgent, monkeypatch: pytest.MonkeyPatch
):
    # |w| = 1, so (phi + b w) . w = phi . w + b, and nothing changes across w.
    cumulants: list[Tensor] = []
    n_step_error = visr_plus.n_step_error

    def spy(psi: Tensor, psi_next: Tensor, cumulant: Tensor, *others: Any) -> Tensor:
        cumulants.append(cumulant)
        return n_step_error(psi, psi_next, cumulant, *others)

    monkeypatch.setattr(visr_plus, "n_step_error", spy)
    agent, plain = (
        new_agent(bonus=bonus, bonus_scale=0.5, value_weight=1.0) for bonus in (kind, "none")
    )
    plain.phi.load_state_dict(agent.phi.state_dict())
    bonus = agent.losses(unroll).metrics["bonus"]
    plain.losses(unroll)
    along = [(c * unroll.w).sum(dim=-1) for c in cumulants]
    across = [c - a.unsqueeze(-1) * unroll.w for c, a in zip(cumulants, along, strict=True)]
    assert (along[0] - along[1]).mean().item() == pytest.approx(bonus.item(), rel=1e-4)
    assert (along[0] > along[1]).all()
    torch.testing.assert_close(across[0], across[1])


@pytest.mark.parametrize("kind", KINDS)
def test_no_gradient_of_the_bonus_loss_reaches_phi_or_psi(
    kind: str, unroll: Unroll, new_agent: NewAgent
):
    agent = new_agent(bonus=kind)
    losses = agent.losses(unroll)
    assert losses.bonus is not None
    if losses.bonus.requires_grad:
        losses.bonus.backward()
    assert all(p.grad is None for net in (agent.phi, agent.psi) for p in net.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_no_gradient_of_the_losses_of_psi_and_phi_reaches_the_bonus(
    kind: str, unroll: Unroll, new_visr_plus: NewVisrPlus
):
    agent = new_visr_plus(bonus=kind)
    losses = agent.losses(unroll)
    (losses.psi + losses.phi).backward()
    assert agent.bonus is not None
    assert all(p.grad is None for p in agent.bonus.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_bonus_has_the_scale_as_its_mean(kind: str, unroll: Unroll, new_agent: NewAgent):
    bonus, _ = new_bonus(kind, bonus_scale=0.3)(new_agent().phi, unroll)
    assert bonus.mean().item() == pytest.approx(0.3, rel=1e-4)
    assert (bonus >= 0).all()


def test_the_bonus_falls_linearly_to_zero(unroll: Unroll, new_visr_plus: NewVisrPlus):
    agent = new_visr_plus(bonus="rnd", bonus_scale=1.0)
    learner = Learner(agent, total_updates=10, bonus_updates=4)
    assert agent.bonus is not None
    shares = []
    for _ in range(6):
        learner.update(unroll)
        shares.append(agent.bonus.share)
    assert shares == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]


def test_the_bonus_is_constant_without_bonus_num_steps(unroll: Unroll, new_visr_plus: NewVisrPlus):
    agent = new_visr_plus(bonus="rnd")
    learner = Learner(agent, total_updates=2)
    for _ in range(3):
        learner.update(unroll)
    assert agent.bonus is not None
    assert agent.bonus.share == 1.0


def test_the_rnd_bonus_is_smaller_for_states_seen_often(new_agent: NewAgent):
    bonus, phi = new_bonus("rnd"), new_agent().phi
    optimiser = torch.optim.Adam([p for p in bonus.parameters() if p.requires_grad], lr=1e-2)
    known = chain([0, 1, 2, 1, 2, 0, 1])
    for _ in range(200):
        optimiser.zero_grad()
        bonus.raw(phi, known)[1].backward()
        optimiser.step()
    raw, _ = bonus.raw(phi, chain([0, 1, 2, 7, 8]))
    assert raw[:2].max().item() < 0.1 * raw[2:].min().item()


def test_the_target_of_rnd_never_learns(unroll: Unroll, new_agent: NewAgent):
    agent = new_agent(bonus="rnd")
    before = {k: v.clone() for k, v in agent.state_dict().items() if k.startswith("bonus.")}
    Learner(agent, total_updates=10).update(unroll)
    after = agent.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before if ".target." in k)
    assert any(not torch.equal(before[k], after[k]) for k in before if ".predictor." in k)


def test_the_particle_bonus_is_the_distance_to_the_nearest_neighbours():
    # On a line at 0, 1, 3, 10 with k = 2: mean distances (1 + 3) / 2, (1 + 2) / 2, (2 + 3) / 2, (7 + 9) / 2
    phi = Table([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [10.0, 0.0]])
    raw, _ = new_bonus("particles", bonus_neighbours=2).raw(phi, chain([0, 0, 1, 2, 3]))
    expected = torch.tensor([2.0, 1.5, 2.5, 8.0]).log1p()
    torch.testing.assert_close(raw.squeeze(1), expected)


def test_steps_that_only_reset_do_not_count_for_the_mean(unroll: Unroll, new_agent: NewAgent):
    bonus, phi = new_bonus("rnd"), new_agent().phi
    is_reset = unroll.is_reset.clone()
    is_reset[2] = True
    counted = bonus(phi, unroll._replace(is_reset=is_reset))[0][~is_reset]
    assert counted.mean().item() == pytest.approx(0.1, rel=1e-4)
