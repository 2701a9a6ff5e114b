"""The sum tree against running sums, and the prioritised memory against a walk along its episodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from visr.paper.baselines.rainbow.memory import Memory
from visr.paper.baselines.rainbow.sum_tree import SumTree

GAMMA, N = 0.9, 3


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 70), st.integers(0, 2**31))
def test_a_sum_tree_finds_what_running_sums_find(size: int, seed: int):
    random = np.random.default_rng(seed)
    tree, weights = SumTree(size), np.zeros(size)
    for _ in range(5):
        changed = random.integers(size, size=random.integers(1, 9))
        drawn = random.random(len(changed)) * (random.random(len(changed)) > 0.3)
        weights[changed] = drawn
        tree.set(changed, drawn)
    assert tree.total == pytest.approx(weights.sum())
    assert np.array_equal(tree.leaves, weights)
    if weights.sum() > 0:
        amounts = random.random(200) * tree.total
        expected = np.searchsorted(np.cumsum(weights), amounts, side="right")
        assert np.array_equal(tree.find(amounts), expected)


def test_rounding_never_finds_a_weight_of_zero():
    tree = SumTree(8)
    tree.set(np.arange(3), np.array([0.1, 0.2, 0.3]))
    assert tree.find(np.array([tree.total, tree.total * 1.01])).tolist() == [2, 2]


def filled(size: int = 100, lengths: tuple[int, ...] = (7, 2, 5, 9)) -> tuple[Memory, list]:
    """A memory of some episodes, every second cut by a clock, and the steps that it was told of."""
    memory, told = Memory(np.zeros(1, dtype=np.int64), size, N, GAMMA), []
    number = 0
    for episode, length in enumerate(lengths):
        for t in range(length):
            terminated = t == length - 1 and episode % 2 == 0
            memory.add(np.array([number]), number % 4, float(number), terminated)
            told.append((number, episode, t, length, terminated))
            number += 1
        memory.close(np.array([1_000 + episode]))
    return memory, told


def drawn(memory: Memory, size: int = 400, beta: float = 0.5):
    return memory.sample(size, beta, torch.Generator().manual_seed(0))


def test_what_is_drawn_is_what_a_walk_along_the_episode_finds():
    memory, told = filled()
    batch = drawn(memory)
    steps = {number: step for number, *step in told}
    assert set(batch.observation[:, 0].tolist()) == set(steps)  # every step, and nothing but steps
    for row, number in enumerate(batch.observation[:, 0].tolist()):
        episode, t, length, _ = steps[number]
        taken = min(N, length - t)
        reaches_end = t + taken == length
        assert batch.action[row] == number % 4
        assert batch.reward[row] == pytest.approx(
            sum(GAMMA**k * (number + k) for k in range(taken))
        )
        ends = reaches_end and episode % 2 == 0
        assert batch.discount[row] == pytest.approx(0.0 if ends else GAMMA**taken)
        after = 1_000 + episode if reaches_end else number + taken
        assert ends or batch.next_observation[row, 0] == after


def test_a_step_is_drawn_only_once_its_return_is_known():
    memory = Memory(np.zeros(1, dtype=np.int64), 50, N, GAMMA)
    for number in range(5):
        memory.add(np.array([number]), 0, 1.0, False)
    assert set(drawn(memory).observation[:, 0].tolist()) == {0, 1}
    memory.close(np.array([5]))
    assert set(drawn(memory).observation[:, 0].tolist()) == {0, 1, 2, 3, 4}


def test_a_lost_life_ends_what_counts_though_the_game_goes_on():
    memory = Memory(np.zeros(1, dtype=np.int64), 50, N, GAMMA)
    for number in range(8):
        memory.add(np.array([number]), 0, 1.0, number == 2)
    batch = drawn(memory)
    first = batch.observation[:, 0].tolist().index(1)
    assert batch.reward[first] == pytest.approx(1 + GAMMA)
    assert batch.discount[first] == 0.0


def test_a_full_memory_forgets_the_oldest_and_mixes_no_episodes():
    memory, told = filled(size=20, lengths=(6,) * 10)
    kept = set(drawn(memory).observation[:, 0].tolist())
    newest = [number for number, *_ in told][-20:]
    assert kept <= set(newest)
    assert len(kept) >= 16  # 20 rows, of which some are last observations
    for number, reward in zip(
        *(x.tolist() for x in (drawn(memory).observation[:, 0], drawn(memory).reward)), strict=True
    ):
        _, _, t, length, _ = told[number]
        taken = min(N, length - t)
        assert reward == pytest.approx(sum(GAMMA**k * (number + k) for k in range(taken)))


def test_steps_are_drawn_in_proportion_and_weighted_against_it():
    memory, _ = filled()
    slots = drawn(memory).slots
    chosen = np.unique(slots)
    priority = np.linspace(0.2, 2.0, len(chosen))
    memory.prioritise(chosen, priority)
    batch = memory.sample(20_000, 0.4, torch.Generator().manual_seed(1))
    share = np.array([(batch.slots == slot).mean() for slot in chosen])
    probability = priority / priority.sum()
    assert np.allclose(share, probability, atol=0.002)
    expected = (len(chosen) * probability) ** -0.4
    weight = np.array([batch.weight[batch.slots == slot][0] for slot in chosen])
    assert np.allclose(weight, expected / expected.max(), rtol=1e-5)


def test_a_memory_comes_back_from_its_pieces_as_it_was():
    memory, _ = filled(size=30, lengths=(6,) * 3)
    pieces = [memory.new_piece()]
    for number in range(100, 121):
        memory.add(np.array([number]), 1, 0.5, False)
    pieces.append(memory.new_piece())
    memory.prioritise(drawn(memory).slots, np.linspace(1, 3, 400))
    again = Memory(np.zeros(1, dtype=np.int64), 30, N, GAMMA)
    for piece in pieces:
        again.restore(piece)
    again.load_state(memory.state())
    for one, other in zip(drawn(memory), drawn(again), strict=True):
        assert np.array_equal(one, other)
    memory.add(np.array([7]), 0, 0.0, False)
    again.add(np.array([7]), 0, 0.0, False)
    for one, other in zip(drawn(memory), drawn(again), strict=True):
        assert np.array_equal(one, other)
