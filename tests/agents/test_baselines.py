"""The baselines: their cumulants, and what each learns in a small environment."""

from __future__ import annotations

import copy
import math
from typing import Any, get_args

import pytest
import torch
from gymnasium.spaces import Discrete
from torch import Tensor

from tests.probes import CORRIDOR, NOISE
from visr import agents
from visr import config as configuration
from visr.agents.base import Agent
from visr.agents.curiosity import Curiosity
from visr.agents.diayn import Diayn
from visr.config import BASELINES, REPLAY_LEARNERS, Algorithm, RunConfig, presets
from visr.training.learner import Learner
from visr.training.loop import Loop
from visr.types import EnvSpec, Unroll

ALGORITHMS = tuple(a for a in get_args(Algorithm) if a not in (*REPLAY_LEARNERS, *BASELINES))
SPEC = EnvSpec(Discrete(5), num_actions=2)
SMALL = {"hidden_sizes": (32, 32), "curiosity_size": 16, "num_skills": 2, "target_period": 5}
GAMMA = 0.9


def new_agent(algorithm: str, **fields: Any) -> Agent:
    torch.manual_seed(0)
    config = configuration.replace(RunConfig(), algorithm=algorithm, **{**SMALL, **fields})
    return agents.new(config.agent, SPEC)


def new_unroll(agent: Agent) -> Unroll:
    random = torch.Generator().manual_seed(1)
    length, batch = 6, 4
    flags = torch.zeros(length, batch, dtype=torch.bool)
    terminated = flags.clone()
    terminated[2, 1] = True
    is_reset = flags.clone()
    is_reset[3, 1] = True
    return Unroll(
        observation=torch.randint(5, (length + 1, batch), generator=random),
        action=torch.randint(2, (length, batch), generator=random),
        reward=torch.randn(length, batch, generator=random),
        terminated=terminated,
        truncated=flags,
        is_reset=is_reset,
        w=agent.sample_tasks(batch, random),
        previous_action=torch.full((batch,), -1),
        memory=torch.empty(batch, 0),
    )


def after_an_update(agent: Agent, unroll: Unroll) -> dict[str, Tensor]:
    agent = copy.deepcopy(agent)
    Learner(agent, total_updates=10).update(unroll)
    return agent.state_dict()


def differ(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return any(not torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_nsq_uses_the_reward(algorithm: str):
    agent = new_agent(algorithm)
    unroll = new_unroll(agent)
    richer = unroll._replace(reward=unroll.reward + 0.5)
    looks = differ(after_an_update(agent, unroll), after_an_update(agent, richer))
    assert looks == (algorithm == "nsq")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_curiosity_ignores_the_end_of_an_episode(algorithm: str):
    agent = new_agent(algorithm)
    unroll = new_unroll(agent)
    endless = unroll._replace(terminated=torch.zeros_like(unroll.terminated))
    matters = differ(after_an_update(agent, unroll), after_an_update(agent, endless))
    assert matters == ("curiosity" not in algorithm)


def test_nsq_clips_rewards():
    agent = new_agent("nsq")
    unroll = new_unroll(agent)
    huge, unit = (unroll._replace(reward=torch.full((6, 4), value)) for value in (50.0, 1.0))
    assert not differ(after_an_update(agent, huge), after_an_update(agent, unit))


@pytest.mark.parametrize(("subtracts", "expected"), [(True, 0.0), (False, -math.log(2))])
def test_diayns_reward_is_the_prior_alone_if_the_discriminator_is_uniform(
    subtracts: bool, expected: float
):
    agent = new_agent("diayn", diayn_subtract_prior=subtracts)
    assert isinstance(agent, Diayn)
    with torch.no_grad():
        for parameter in agent.phi.parameters():
            parameter.zero_()  # q(z | s) = 1/2
    reward = agent.losses(new_unroll(agent)).metrics["intrinsic_reward"]
    assert float(reward) == pytest.approx(expected, abs=1e-6)


def test_curiosity_divides_errors_by_the_deviation_of_returns():
    # gamma .5, errors 1 2 / 3 0 (two steps, two environments), begun at 0:
    # R_1 = 1, 3      R_2 = .5 * 1 + 2 = 2.5, .5 * 3 + 0 = 1.5      mean 2
    # deviation = sqrt((1 + 1 + .25 + .25) / 4) = sqrt(.625);  the next begins at (2.5 + 1.5) / 2 = 2
    agent = new_agent("rf-curiosity", gamma=0.5)
    assert isinstance(agent, Curiosity)
    deviation = agent._deviation_of_returns(torch.tensor([[1.0, 3.0], [2.0, 0.0]]))
    assert float(deviation) == pytest.approx(math.sqrt(0.625))
    assert float(agent.carried) == 2.0


def test_random_features_never_change_and_inverse_dynamics_features_do():
    for algorithm, moves in (("rf-curiosity", False), ("idf-curiosity", True)):
        agent = new_agent(algorithm)
        before = {k: v for k, v in agent.state_dict().items() if k.startswith("phi.")}
        after = after_an_update(agent, new_unroll(agent))
        assert differ(before, {k: after[k] for k in before}) == moves


def tiny(algorithm: str, env: str, **fields: Any) -> RunConfig:
    """Some 5,000 steps: one or two seconds."""
    quick = {
        "gamma": GAMMA,
        "n_step": 3,
        "epsilon": 0.3,
        "num_steps": 6_400,
        "num_envs": 16,
        "unroll_length": 10,
        "batch_size": 8,
        "psi_learning_rate": 1e-2,
        "phi_learning_rate": 1e-2,
        "seed": 0,
        **SMALL,
    }
    classic = presets.get("classic")
    return configuration.replace(classic, algorithm=algorithm, env=env, **{**quick, **fields})


def trained(algorithm: str, env: str, **fields: Any) -> Loop:
    loop = Loop(tiny(algorithm, env, **fields))
    for _ in loop.rounds():
        pass
    loop.close()
    return loop


def values(agent: Agent, states: list[int], task: list[float]) -> Tensor:
    """Q [states, actions] of one task."""
    with torch.inference_mode():
        w = torch.tensor(task).expand(len(states), -1)
        return agent.psi(torch.tensor(states), w)[..., 0]


def test_nsq_learns_the_way_to_the_reward():
    q = values(trained("nsq", CORRIDOR).agent, [1, 2, 3], [1.0])
    assert (q.argmax(dim=-1) == 1).all()  # right, everywhere
    expected = torch.tensor([GAMMA**2, GAMMA, 1.0])  # two, one, no more steps before the reward
    assert torch.allclose(q[:, 1], expected, atol=0.1)


def test_pos_reward_nsq_learns_to_stay_alive():
    q = values(trained("pos-nsq", CORRIDOR, constant_reward=0.1).agent, [1, 3], [1.0])
    assert q.argmax(dim=-1).tolist() == [1, 0]  # away from either end
    assert float(q[0, 0]) == pytest.approx(0.1, abs=0.15)  # one more step, then nothing
    assert float(q[0, 1]) == pytest.approx(0.1 / (1 - GAMMA), abs=0.35)  # for ever


def test_diayn_learns_two_skills_that_move_in_opposite_directions():
    loop = trained("diayn", CORRIDOR, num_steps=12_800)
    left_and_right = {int(values(loop.agent, [2], z).argmax()) for z in ([1.0, 0.0], [0.0, 1.0])}
    assert left_and_right == {0, 1}


def test_curiosity_prefers_transitions_that_cannot_be_predicted():
    q = values(trained("rf-curiosity", NOISE).agent, [0], [1.0])
    assert int(q.argmax()) == 1


def test_inverse_dynamics_learns_which_action_was_taken():
    agent = trained("idf-curiosity", CORRIDOR).agent
    assert isinstance(agent, Curiosity)
    assert agent.inverse_model is not None
    phi = agent.phi(torch.arange(5))
    to_the_left = agent.inverse_model(phi[[2, 3]], phi[[1, 2]]).argmax(dim=-1)
    to_the_right = agent.inverse_model(phi[[1, 2]], phi[[2, 3]]).argmax(dim=-1)
    assert to_the_left.tolist() == [0, 0]
    assert to_the_right.tolist() == [1, 1]


def test_uniform_takes_all_actions_equally_often():
    loop = Loop(tiny("uniform", CORRIDOR, num_envs=64, unroll_length=100))
    (unroll,) = loop.actor_pools[0].collect()
    share = unroll.action.float().mean()  # 6,400 draws of one half: deviation .006
    assert float(share) == pytest.approx(0.5, abs=0.03)
    loop.close()


@pytest.mark.parametrize("algorithm", ["nsq", "diayn", "idf-curiosity"])
def test_a_resumed_baseline_ends_with_the_same_weights(algorithm: str):
    config = configuration.replace(
        presets.get("smoke"), algorithm=algorithm, num_steps=5_120, **SMALL
    )
    whole, first, second = Loop(config), Loop(config), Loop(config)
    for _ in whole.rounds():
        pass
    rounds = first.rounds()
    for _ in range(3):
        next(rounds)
    rounds.close()
    second.load_state(*copy.deepcopy(first.state()))
    for _ in second.rounds():
        pass
    assert not differ(whole.agent.state_dict(), second.agent.state_dict())
