"""The sum tree equals running sums; the prioritised replay equals a walk along its episodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from visr.paper.baselines.rainbow.prioritised import PrioritisedBatch, PrioritisedReplay, SumTree

GAMMA, N = 0.9, 3


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 70), st.integers(0, 2**31))
def test_a_sum_tree_finds_the_same_index_as_running_sums(size: int, seed: int):
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


def filled(
    size: int = 100, lengths: tuple[int, ...] = (7, 2, 5, 9)
) -> tuple[PrioritisedReplay, list]:
    """A replay buffer with some episodes, every second truncated, and the steps that were added."""
    replay, added = PrioritisedReplay(np.zeros(1, dtype=np.int64), size, N, GAMMA), []
    number = 0
    for episode, length in enumerate(lengths):
        for t in range(length):
            terminated = t == length - 1 and episode % 2 == 0
            replay.add(np.array([number]), number % 4, float(number), terminated)
            added.append((number, episode, t, length, terminated))
            number += 1
        replay.end_episode(np.array([1_000 + episode]))
    return replay, added


def drawn(replay: PrioritisedReplay, size: int = 400, beta: float = 0.5) -> PrioritisedBatch:
    return replay.sample(size, beta, torch.Generator().manual_seed(0))


def test_n_step_returns_equal_a_walk_along_the_episode():
    replay, added = filled()
    batch = drawn(replay)
    steps = {number: step for number, *step in added}
    assert set(batch.steps.observation[:, 0].tolist()) == set(
        steps
    )  # every step, and nothing but steps
    for row, number in enumerate(batch.steps.observation[:, 0].tolist()):
        episode, t, length, _ = steps[number]
        taken = min(N, length - t)
        reaches_end = t + taken == length
        assert batch.steps.action[row] == number % 4
        assert batch.steps.reward[row] == pytest.approx(
            sum(GAMMA**k * (number + k) for k in range(taken))
        )
        ends = reaches_end and episode % 2 == 0
        assert batch.steps.discount[row] == pytest.approx(0.0 if ends else GAMMA**taken)
        after = 1_000 + episode if reaches_end else number + taken
        assert ends or batch.steps.next_observation[row, 0] == after


def test_a_step_is_drawn_only_once_its_return_is_known():
    replay = PrioritisedReplay(np.zeros(1, dtype=np.int64), 50, N, GAMMA)
    for number in range(5):
        replay.add(np.array([number]), 0, 1.0, False)
    assert set(drawn(replay).steps.observation[:, 0].tolist()) == {0, 1}
    replay.end_episode(np.array([5]))
    assert set(drawn(replay).steps.observation[:, 0].tolist()) == {0, 1, 2, 3, 4}


def test_a_return_stops_at_a_lost_life_though_the_episode_continues():
    replay = PrioritisedReplay(np.zeros(1, dtype=np.int64), 50, N, GAMMA)
    for number in range(8):
        replay.add(np.array([number]), 0, 1.0, number == 2)
    batch = drawn(replay)
    first = batch.steps.observation[:, 0].tolist().index(1)
    assert batch.steps.reward[first] == pytest.approx(1 + GAMMA)
    assert batch.steps.discount[first] == 0.0


def test_a_full_buffer_drops_the_oldest_steps_and_mixes_no_episodes():
    replay, added = filled(size=20, lengths=(6,) * 10)
    kept = set(drawn(replay).steps.observation[:, 0].tolist())
    newest = [number for number, *_ in added][-20:]
    assert kept <= set(newest)
    assert len(kept) >= 16  # 20 rows, of which some are last observations
    steps = drawn(replay).steps
    for number, reward in zip(steps.observation[:, 0].tolist(), steps.reward.tolist(), strict=True):
        _, _, t, length, _ = added[number]
        taken = min(N, length - t)
        assert reward == pytest.approx(sum(GAMMA**k * (number + k) for k in range(taken)))


def test_steps_are_drawn_in_proportion_to_priority_and_weighted_inversely():
    replay, _ = filled()
    slots = drawn(replay).slots
    chosen = np.unique(slots)
    priority = np.linspace(0.2, 2.0, len(chosen))
    replay.set_priorities(chosen, priority)
    batch = replay.sample(20_000, 0.4, torch.Generator().manual_seed(1))
    share = np.array([(batch.slots == slot).mean() for slot in chosen])
    probability = priority / priority.sum()
    assert np.allclose(share, probability, atol=0.002)
    expected = (len(chosen) * probability) ** -0.4
    weight = np.array([batch.weight[batch.slots == slot][0] for slot in chosen])
    assert np.allclose(weight, expected / expected.max(), rtol=1e-5)


def assert_equal(one: PrioritisedBatch, other: PrioritisedBatch) -> None:
    pairs = zip(
        [*one.steps, one.slots, one.weight], [*other.steps, other.slots, other.weight], strict=True
    )
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_a_buffer_restored_from_its_pieces_draws_the_same_steps():
    replay, _ = filled(size=30, lengths=(6,) * 3)
    pieces = [replay.new_piece()]
    for number in range(100, 121):
        replay.add(np.array([number]), 1, 0.5, False)
    pieces.append(replay.new_piece())
    replay.set_priorities(drawn(replay).slots, np.linspace(1, 3, 400))
    again = PrioritisedReplay(np.zeros(1, dtype=np.int64), 30, N, GAMMA)
    again.load_state(replay.state())
    assert again.num_missing == 30
    for piece in pieces:
        again.restore(piece)
    assert again.num_missing == 0
    assert_equal(drawn(replay), drawn(again))
    replay.add(np.array([7]), 0, 0.0, False)
    again.add(np.array([7]), 0, 0.0, False)
    assert_equal(drawn(replay), drawn(again))
