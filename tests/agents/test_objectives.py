"""Other objectives for phi, each on a problem with a known solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gymnasium.spaces import Discrete

from visr import agents
from visr import config as configuration
from visr.agents.extensions.objectives import Wasserstein, overlap
from visr.agents.extensions.visr_plus import VisrPlus
from visr.agents.visr import Visr
from visr.config import RunConfig, presets
from visr.errors import UserError
from visr.ops import sphere
from visr.training.learner import Learner
from visr.types import EnvSpec, Unroll

OTHERS = ("metra", "laplacian")
SPEC = EnvSpec(Discrete(9), num_actions=4)

NewAgent = Callable[..., Visr]


def walk(batch: int = 64, length: int = 20, seed: int = 0, d: int = 2) -> Unroll:
    """Unrolls of a walk on a ring of 9 states: actions 0 and 1 step left and right, 2 and 3 stay."""
    random = torch.Generator().manual_seed(seed)
    action = torch.randint(4, (length, batch), generator=random)
    move = torch.tensor([-1, 1, 0, 0])[action]
    start = torch.randint(9, (1, batch), generator=random)
    observation = torch.cat([start, start + move.cumsum(dim=0)]) % 9
    flag = torch.zeros(length, batch, dtype=torch.bool)
    return Unroll(
        observation=observation,
        action=action,
        reward=torch.zeros(length, batch),
        terminated=flag,
        truncated=flag,
        is_reset=flag,
        w=sphere.uniform(batch, d=d, generator=random),
        previous_action=torch.full((batch,), -1),
        memory=torch.empty(batch, 0),
    )


def trained(new_agent: NewAgent, num_updates: int, **fields: object) -> Visr:
    settings = {"num_features": 2, "hidden_sizes": (32, 32), "phi_learning_rate": 1e-2}
    agent = new_agent(**{**settings, "phi_adam_epsilon": 1e-8, **fields})
    learner = Learner(agent, total_updates=num_updates)
    for seed in range(num_updates):
        learner.update(walk(seed=seed, d=agent.config.num_features))
    return agent


def test_laplacian_features_of_a_ring_form_a_circle(new_agent: NewAgent):
    # The slowest pair of a ring's Laplacian is (cos, sin) of the angle: equal lengths, equal angles.
    agent = trained(new_agent, 300, objective="laplacian")
    with torch.no_grad():
        phi = agent.phi(torch.arange(9))
    phi = phi - phi.mean(dim=0)
    cosines = torch.nn.functional.cosine_similarity(phi, phi.roll(-1, dims=0), dim=-1)
    assert phi.norm(dim=-1).std() / phi.norm(dim=-1).mean() < 0.2
    torch.testing.assert_close(cosines, torch.full((9,), 0.766), atol=0.15, rtol=0)  # cos(2 pi / 9)


def test_overlap_is_zero_for_orthogonal_features_of_the_right_size():
    # Four corners of a square, mean square of each coordinate 1/2 = 1/d
    corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]) / 2**0.5
    assert overlap(corners.unsqueeze(1)).item() == pytest.approx(0.0, abs=1e-6)
    assert overlap(2 * corners.unsqueeze(1)).item() > 0.1


def pursuit(seed: int) -> Unroll:
    """On a line of 9 states, w with w_0 > 0 walks to its right end and the others to its left."""
    plain = walk(seed=seed)
    way = torch.where(plain.w[:, 0] > 0, 1, -1)
    steps = torch.arange(21).unsqueeze(1) * way
    return plain._replace(observation=(plain.observation[:1] + steps).clamp(0, 8))


def test_wasserstein_features_of_a_line_are_as_far_apart_as_steps(new_agent: NewAgent):
    settings = {"phi_learning_rate": 1e-2, "phi_adam_epsilon": 1e-8, "hidden_sizes": (32, 32)}
    agent = new_agent(objective="metra", num_features=2, **settings)
    learner = Learner(agent, total_updates=400)
    for seed in range(400):
        learner.update(pursuit(seed))
    with torch.no_grad():
        phi = agent.phi(torch.arange(9))
    steps = (phi[1:] - phi[:-1]).norm(dim=-1)
    assert steps.max() < 1.3
    assert phi[8, 0] - phi[0, 0] > 5  # eight steps of at most 1


def test_the_price_of_long_steps_rises_where_they_are_too_long():
    objective = Wasserstein()
    long = torch.nn.Embedding.from_pretrained(torch.arange(9.0).unsqueeze(1) * 3.0)
    short = torch.nn.Embedding.from_pretrained(torch.arange(9.0).unsqueeze(1) * 0.01)
    prices = []
    for phi in (long, short):
        objective.zero_grad()
        probe = walk(d=1)
        objective(phi(probe.observation), probe)[0].backward()
        assert objective.log_price.grad is not None
        prices.append(objective.log_price.grad.item())
    assert prices[0] < 0 < prices[1]  # descent raises the first and lowers the second


def test_the_wasserstein_cumulant_sums_to_the_difference_of_the_ends(new_agent: NewAgent):
    objective, probe = Wasserstein(), walk(d=2)
    phi = new_agent(objective="metra", num_features=2).phi
    _, cumulant = objective(phi(probe.observation), probe)
    ends = phi(probe.observation[-1]) - phi(probe.observation[0])
    torch.testing.assert_close(cumulant.sum(dim=0), ends)


@pytest.mark.parametrize("objective", OTHERS)
def test_no_gradient_of_psis_loss_reaches_phi_or_the_objective(
    objective: str, unroll: Unroll, new_agent: NewAgent
):
    agent = new_agent(objective=objective)
    agent.losses(unroll).psi.backward()
    assert all(p.grad is None for p in agent.parameter_groups()["phi"])


@pytest.mark.parametrize("objective", OTHERS)
def test_an_update_changes_phi_and_the_objectives_own_parameters(
    objective: str, unroll: Unroll, new_agent: NewAgent
):
    agent = new_agent(objective=objective)
    before = {k: v.clone() for k, v in agent.state_dict().items()}
    Learner(agent, total_updates=10).update(unroll)
    after = agent.state_dict()
    learnt = [k for k in before if k.startswith(("phi.", "objective."))]
    assert all(not torch.equal(before[k], after[k]) for k in learnt)


@pytest.mark.parametrize("objective", ["metra", "laplacian"])
def test_phi_has_any_length_with_other_objectives(objective: str, new_agent: NewAgent):
    lengths = new_agent(objective=objective).phi(torch.arange(9)).norm(dim=-1)
    assert (lengths - 1).abs().max() > 0.1


def test_an_update_works_with_64_features(unroll: Unroll, new_agent: NewAgent):
    agent = new_agent(num_features=64, objective="laplacian")
    wide = unroll._replace(w=sphere.uniform(4, d=64))
    before = {k: v.clone() for k, v in agent.state_dict().items()}
    Learner(agent, total_updates=10).update(wide)
    assert any(not torch.equal(before[k], v) for k, v in agent.state_dict().items())


@pytest.mark.parametrize(
    "fields",
    [
        {"objective": "laplacian", "features": "random"},
        {"objective": "metra", "cumulant": "current"},
        {"objective": "inverse"},  # dropped
        {"bonus": "forward"},  # dropped
        {"bonus_scale": -1.0},
        {"task_mix": 1.5},
        {"task_steps": 1},
        {"task_steps": 7, "task_distribution": "visited"},
    ],
)
def test_impossible_settings_are_refused(fields: dict[str, object]):
    with pytest.raises(UserError):
        configuration.replace(RunConfig(), **fields)


def test_the_papers_agent_has_no_other_parameters(new_agent: NewAgent):
    names = {name.split(".")[0] for name in new_agent().state_dict()}
    assert names == {"phi", "psi", "target_psi"}


PLUS_SETTINGS: list[dict[str, Any]] = [
    {"objective": "laplacian"},
    {"bonus": "rnd"},
    {"task_distribution": "visited"},
    {"value_weight": 1.0},
    {"cumulant": "current"},
    {"gpi_distribution": "uniform"},
]


@pytest.mark.parametrize("fields", PLUS_SETTINGS, ids=str)
def test_settings_beyond_the_paper_get_visr_plus(fields: dict[str, Any], new_agent: NewAgent):
    assert type(new_agent(**fields)) is VisrPlus


@pytest.mark.parametrize("preset", ["paper", "grid", "atari", "minatar", "classic"])
def test_presets_of_the_paper_get_the_papers_agent(preset: str):
    assert type(agents.new(presets.get(preset).agent, SPEC)) is Visr


def test_visr_plus_with_the_papers_settings_has_the_papers_losses(
    unroll: Unroll, new_agent: NewAgent
):
    paper = new_agent()
    plus = VisrPlus(paper.config, SPEC)
    plus.load_state_dict(paper.state_dict())
    ours, theirs = paper.losses(unroll), plus.losses(unroll)
    assert torch.equal(ours.psi, theirs.psi)
    assert torch.equal(ours.phi, theirs.phi)
    assert ours.metrics == theirs.metrics
