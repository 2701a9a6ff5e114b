from __future__ import annotations

import numpy as np
import pytest

from visr.envs.grid import dynamic_programming
from visr.envs.grid.world import GridWorld
from visr.errors import UserError

UP, LEFT, DOWN, RIGHT = range(4)

# The corridor: states 0 1 2, reward 1 for arriving at 2 (up and down stay), gamma 1/2.
CORRIDOR = GridWorld(1, 3)
GOAL = np.array([0.0, 0.0, 1.0])


def random_mdp(seed: int, num_states: int = 30, num_actions: int = 3, num_tasks: int = 5):
    rng = np.random.default_rng(seed)
    transitions = rng.integers(0, num_states, (num_states, num_actions))
    return transitions, rng.normal(size=(num_tasks, num_states)), rng


def by_value_iteration(transitions: np.ndarray, reward: np.ndarray, gamma: float) -> np.ndarray:
    values = np.zeros_like(reward)
    for _ in range(int(np.log(1e-16) / np.log(gamma)) + 1):
        values = (reward + gamma * values)[..., transitions].max(axis=-1)
    return values


def test_optimal_values_of_the_corridor():
    # V(2) = 1 + V(2)/2 = 2     V(1) = 1 + 2/2 = 2     V(0) = 0 + 2/2 = 1
    values = dynamic_programming.optimal_values(CORRIDOR.transitions, GOAL, 0.5)
    assert values == pytest.approx([1, 2, 2], abs=1e-14)


def test_random_values_of_the_corridor():
    # V0 = 3/4 V0/2 + 1/4 V1/2                        V0 = V1/5
    # V2 = 3/4 (1 + V2/2) + 1/4 V1/2                  V2 = 6/5 + V1/5
    # V1 = 2/4 V1/2 + 1/4 V0/2 + 1/4 (1 + V2/2)       V1 = 4/7
    values = dynamic_programming.random_values(CORRIDOR.transitions, GOAL, 0.5)
    assert values == pytest.approx([4 / 35, 4 / 7, 46 / 35], abs=1e-14)


def test_policy_values_of_the_corridor():
    # always left: 0 is absorbing     always up: stay; only 2 pays, 1 + 1/2 + 1/4 + ... = 2
    # right, right, left: 1 -> 2 -> 1 -> 2: V(1) = 1 + V(2)/2, V(2) = V(1)/2, so 4/3 and 2/3
    policies = np.array([[LEFT] * 3, [UP] * 3, [RIGHT, RIGHT, LEFT]])
    values = dynamic_programming.policy_values(CORRIDOR.transitions, policies, GOAL, 0.5)
    assert values == pytest.approx(np.array([[0, 0, 0], [0, 0, 2], [2 / 3, 4 / 3, 2 / 3]]))


def test_fractions_of_optimal_in_the_corridor():
    # averages over the three starts: optimal 5/3, random 2/3, left 0, up 2/3
    policies = np.array([[RIGHT] * 3, [LEFT] * 3, [UP] * 3])
    fractions = dynamic_programming.fraction_of_optimal(
        CORRIDOR.transitions, policies, GOAL, CORRIDOR.start, 0.5
    )
    assert fractions == pytest.approx([1, -2 / 3, 0], abs=1e-14)


def test_a_fraction_weighs_the_states_by_how_often_they_start():
    # from state 0 alone: optimal 1, random 4/35, up 0
    start = np.array([1.0, 0.0, 0.0])
    policy = np.full(3, UP)
    fraction = dynamic_programming.fraction_of_optimal(
        CORRIDOR.transitions, policy, GOAL, start, 0.5
    )
    assert fraction.shape == ()
    assert float(fraction) == pytest.approx(-(4 / 35) / (1 - 4 / 35))


def test_greedy_takes_the_first_of_equal_actions():
    values = dynamic_programming.optimal_values(CORRIDOR.transitions, GOAL, 0.5)
    policy = dynamic_programming.greedy(CORRIDOR.transitions, GOAL, values, 0.5)
    assert policy.tolist() == [RIGHT, RIGHT, UP]


@pytest.mark.parametrize("gamma", [0.3, 0.95, 0.99])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_policy_iteration_agrees_with_value_iteration(seed: int, gamma: float):
    transitions, reward, _ = random_mdp(seed)
    values = dynamic_programming.optimal_values(transitions, reward, gamma)
    assert np.abs(values - by_value_iteration(transitions, reward, gamma)).max() < 1e-10


@pytest.mark.parametrize("world", [GridWorld(10, 10), GridWorld.four_rooms(9, 11)])
def test_optimal_values_of_grids_satisfy_bellmans_equation(world: GridWorld):
    reward = np.random.default_rng(1).normal(size=(24, world.num_states))
    values = dynamic_programming.optimal_values(world.transitions, reward, 0.95)
    backup = (reward + 0.95 * values)[:, world.transitions].max(axis=-1)
    assert np.abs(values - backup).max() < 1e-12


def test_the_value_of_a_goal_falls_with_the_distance():
    # arriving every second step: 1 / (1 - gamma^2), and gamma for each step on the way
    world = GridWorld(10, 10)
    row, col = np.divmod(np.arange(100), 10)
    distance = abs(row - 4) + abs(col - 6)
    values = dynamic_programming.optimal_values(
        world.transitions, (distance == 0).astype(float), 0.95
    )
    expected = np.where(distance == 0, 0.95, 0.95 ** (distance - 1.0)) / (1 - 0.95**2)
    assert values == pytest.approx(expected, abs=1e-12)


def test_a_slightly_better_goal_is_not_overlooked():
    # from the middle of a column: up for 1 for ever, or down for 1 + 1e-9 for ever
    values = dynamic_programming.optimal_values(
        GridWorld(3, 1).transitions, np.array([1, 0, 1 + 1e-9]), 0.95
    )
    assert values[1] == pytest.approx(20 + 20e-9, abs=1e-12)


def test_a_batch_is_the_same_as_one_by_one():
    transitions, reward, rng = random_mdp(3)
    mixed = rng.dirichlet(np.ones(3), size=(5, 30))
    actions = rng.integers(0, 3, (5, 30))
    start = rng.dirichlet(np.ones(30))
    optimal = dynamic_programming.optimal_values(transitions, reward, 0.9)
    fractions = dynamic_programming.fraction_of_optimal(transitions, actions, reward, start, 0.9)
    uniform = dynamic_programming.random_values(transitions, reward, 0.9)
    assert fractions.shape == (5,)
    for k, r in enumerate(reward):
        assert optimal[k] == pytest.approx(
            dynamic_programming.optimal_values(transitions, r, 0.9), abs=1e-12
        )
        assert uniform[k] == pytest.approx(
            dynamic_programming.random_values(transitions, r, 0.9), abs=1e-12
        )
        alone = dynamic_programming.fraction_of_optimal(transitions, actions[k], r, start, 0.9)
        assert float(alone) == pytest.approx(fractions[k])
        for policy in (mixed, actions):
            together = dynamic_programming.policy_values(transitions, policy, reward, 0.9)
            alone = dynamic_programming.policy_values(transitions, policy[k], r, 0.9)
            assert together[k] == pytest.approx(alone, abs=1e-12)


@pytest.mark.parametrize("kind", ["actions", "probabilities"])
def test_policies_and_rewards_broadcast(kind: str):
    transitions, reward, rng = random_mdp(4)
    policies = rng.integers(0, 3, (5, 30))
    if kind == "probabilities":
        policies = np.eye(3)[policies]
    shared_policy = dynamic_programming.policy_values(transitions, policies[0], reward, 0.9)
    shared_reward = dynamic_programming.policy_values(transitions, policies, reward[0], 0.9)
    assert shared_policy.shape == shared_reward.shape == (5, 30)
    assert shared_policy[0] == pytest.approx(shared_reward[0], abs=1e-12)


def test_probabilities_of_one_equal_the_actions_themselves():
    transitions, reward, rng = random_mdp(5)
    actions = rng.integers(0, 3, (5, 30))
    certain = dynamic_programming.policy_values(transitions, np.eye(3)[actions], reward, 0.97)
    assert certain == pytest.approx(
        dynamic_programming.policy_values(transitions, actions, reward, 0.97), abs=1e-11
    )


@pytest.mark.parametrize("batch", [(), (5,)])
def test_values_of_mixed_policies_satisfy_bellmans_equation(batch: tuple[int, ...]):
    transitions, reward, rng = random_mdp(6)
    policy = rng.dirichlet(np.ones(3), size=(*batch, 30))
    values = dynamic_programming.policy_values(transitions, policy, reward, 0.95)
    backup = (policy * (reward + 0.95 * values)[:, transitions]).sum(axis=-1)
    assert values == pytest.approx(backup, abs=1e-12)


def test_a_large_world_is_solved():
    world = GridWorld.four_rooms(60, 60)
    reward = np.zeros(world.num_states)
    reward[0] = 1.0
    values = dynamic_programming.optimal_values(world.transitions, reward, 0.95)
    policy = dynamic_programming.greedy(world.transitions, reward, values, 0.95)
    fraction = dynamic_programming.fraction_of_optimal(
        world.transitions, policy, reward, world.start, 0.95
    )
    assert float(fraction) == pytest.approx(1)
    # reaching (0, 0), where up and left stay: 1 / (1 - gamma), and gamma for each step on the way
    assert values[0] == pytest.approx(20)
    assert values[29] == pytest.approx(20 * 0.95**28)


def test_the_greedy_policy_of_optimal_values_is_optimal():
    world = GridWorld.four_rooms(8, 9)
    reward = np.random.default_rng(7).normal(size=(6, world.num_states))
    values = dynamic_programming.optimal_values(world.transitions, reward, 0.95)
    policy = dynamic_programming.greedy(world.transitions, reward, values, 0.95)
    attained = dynamic_programming.policy_values(world.transitions, policy, reward, 0.95)
    assert attained == pytest.approx(values, abs=1e-11)
    fractions = dynamic_programming.fraction_of_optimal(
        world.transitions, policy, reward, world.start, 0.95
    )
    assert fractions == pytest.approx(np.ones(6), abs=1e-11)


def test_no_policy_exceeds_the_optimal_one():
    transitions, reward, rng = random_mdp(8)
    optimal = dynamic_programming.optimal_values(transitions, reward, 0.9)
    for _ in range(20):
        policy = rng.integers(0, 3, (5, 30))
        assert (
            dynamic_programming.policy_values(transitions, policy, reward, 0.9) <= optimal + 1e-12
        ).all()


def test_rewards_inside_walls_do_not_matter():
    world = GridWorld.four_rooms(7, 7)
    reward = np.random.default_rng(9).normal(size=world.num_states) * world.free
    bait = np.where(world.free, reward, 7.0)
    policy = np.random.default_rng(10).integers(0, 4, world.num_states)
    clean, baited = (
        dynamic_programming.fraction_of_optimal(world.transitions, policy, r, world.start, 0.95)
        for r in (reward, bait)
    )
    assert float(clean) == pytest.approx(float(baited), abs=1e-12)


def test_with_gamma_zero_only_the_next_reward_counts():
    transitions, reward, _ = random_mdp(11)
    values = dynamic_programming.optimal_values(transitions, reward, 0.0)
    assert values == pytest.approx(reward[:, transitions].max(axis=-1))
    assert dynamic_programming.random_values(transitions, reward, 0.0) == pytest.approx(
        reward[:, transitions].mean(axis=-1)
    )


def test_fractions_do_not_change_with_the_scale_or_the_offset_of_the_reward():
    transitions, reward, rng = random_mdp(12)
    policy, start = rng.integers(0, 3, 30), np.full(30, 1 / 30)
    plain = dynamic_programming.fraction_of_optimal(transitions, policy, reward, start, 0.95)
    other = dynamic_programming.fraction_of_optimal(
        transitions, policy, 100 * reward - 40, start, 0.95
    )
    assert other == pytest.approx(plain, abs=1e-9)


@pytest.mark.parametrize("constant", [0.0, 1.0, -3.7, 1e9])
def test_a_constant_reward_has_no_fraction_of_optimal(constant: float):
    world = GridWorld(4, 5)
    reward = np.stack([np.arange(20.0), np.full(20, constant)])
    with pytest.raises(UserError, match="random policy"):
        dynamic_programming.fraction_of_optimal(
            world.transitions, np.zeros(20, dtype=int), reward, world.start, 0.95
        )


@pytest.mark.parametrize("gamma", [-0.1, 1.0, 1.5, float("nan")])
def test_a_discount_without_exact_values_is_refused(gamma: float):
    with pytest.raises(UserError, match="0 <= gamma < 1"):
        dynamic_programming.optimal_values(CORRIDOR.transitions, GOAL, gamma)
    with pytest.raises(UserError, match="0 <= gamma < 1"):
        dynamic_programming.random_values(CORRIDOR.transitions, GOAL, gamma)


def test_visits_follow_the_policy_from_every_start():
    # 0 -> 1 -> 2 -> 2; from (1/2, 1/2, 0): counts 1/2 + 0 + 0, 1/2 + 1/2 + 0, 0 + 1/2 + 1
    transitions = np.array([[1], [2], [2]])
    start = np.array([0.5, 0.5, 0.0])
    visits = dynamic_programming.visits(
        transitions, np.zeros(3, dtype=np.int64), start, num_steps=2
    )
    np.testing.assert_allclose(visits, [0.5, 1.0, 1.5])
