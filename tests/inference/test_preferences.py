"""The preferences prompt: Bradley-Terry, the choice of pairs, and a scripted teacher on the grid."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr as library
from tests.test_cli import visr as command
from visr.errors import UserError
from visr.inference import preferences, recording

NONE = np.zeros((0, 3))


def test_the_fit_finds_the_direction_that_made_the_answers():
    rng = np.random.default_rng(0)
    w, x = np.array([0.6, 0.0, -0.8]), rng.normal(size=(200, 3))
    found = preferences.fit(x * np.sign(x @ w)[:, None], NONE).mean
    assert found @ w / np.linalg.norm(found) > 0.98


def test_more_answers_make_the_posterior_narrower():
    x = np.random.default_rng(0).normal(size=(100, 3))
    x *= np.sign(x[:, :1])
    few, many = (np.trace(preferences.fit(x[:n], NONE[:, :3]).covariance) for n in (5, 100))
    assert many < few


def test_segments_lie_within_one_episode():
    # episode  0 0 0 1 1     segments of two steps start at 0, 1 and 3
    assert preferences.starts(np.array([0, 0, 0, 1, 1]), 2).tolist() == [0, 1, 3]
    sums = preferences.segment_sums(np.array([[1.0], [2.0], [4.0]]), [(0, 2), (1, 3)])
    assert sums.tolist() == [[3], [6]]


def test_equal_segments_tell_as_much_as_preferred_ones():
    # the first feature is better; segments that differ in the second only are as good
    x, y = np.array([[1.0, 1.0]]), np.array([[0.0, 2.0]])
    alone, both = (preferences.fit(x, given).mean for given in (y[:0], y))
    assert alone[1] == pytest.approx(alone[0])
    assert abs(both[1]) < 0.01 * both[0]


def test_a_pair_is_chosen_in_a_direction_that_is_not_known_yet():
    # the first feature has been asked about many times, the second never
    phi = np.repeat(np.array([[0, 0], [9, 0], [0, 9]], float), 4, axis=0)
    known = preferences.fit(np.tile([[1.0, 0.0]], (30, 1)), np.zeros((0, 2)))
    a, b = preferences.next_pair(phi, np.array([0, 4, 8]), known, number=0, length=4)
    assert 8 in (a, b)


def test_a_reward_that_changes_little_is_likelier_before_any_answer():
    # the first feature alternates at every step, the second hardly changes; both have variance 1
    # D = diag(4, 0): (1 + 5 D)^-2 = diag(1 / 441, 1)
    time = np.arange(2_000)
    phi = np.stack([(-1.0) ** time, np.sqrt(2) * np.sin(time / 300)], axis=1)
    prior = preferences.smooth_prior(phi, np.zeros(2_000, np.intp))
    assert prior is not None
    assert prior[1, 1] == pytest.approx(441 * prior[0, 0], rel=0.1)
    assert preferences.smooth_prior(phi, np.arange(2_000)) is None  # no segment within an episode


def test_the_prior_does_not_depend_on_how_often_a_step_is_repeated():
    # a policy goes round a ring of six states, but moves between two of them for a while, or for a long time
    ring, shapes = np.tile(np.arange(6), 100), []
    for times in (2, 1_000):
        seen = np.concatenate([ring, np.tile([0, 1], times), ring])
        prior = preferences.smooth_prior(np.eye(6)[seen], np.zeros(len(seen), np.intp))
        assert prior is not None
        shapes.append(prior / np.trace(prior))
    np.testing.assert_allclose(shapes[0], shapes[1], atol=1e-6)


def test_twenty_answers_reach_nine_tenths_of_what_the_reward_itself_gives(grid: library.Run):
    recorded = recording.record(grid.visr, grid.config, 20_000).in_order()
    fractions = []
    for reward in ("boxes:7", "boxes:3", "row > 5", "goal:2,7"):
        task = grid.infer(reward)
        assert task.reward is not None
        taught = answered(grid, recorded, task.reward)
        judged = dataclasses.replace(taught, reward=task.reward)
        mine, best = (grid.evaluate_exactly(t).fraction_of_optimal for t in (judged, task))
        fractions.append(mine / best)
    assert np.mean(fractions) > 0.9
    assert min(fractions) > 0.6


def answered(run: library.Run, recorded: Any, reward: Any, count: int = 20) -> library.Task:
    """The task of a teacher that knows the reward and says where two segments return the same."""
    length, pairs = preferences.SEGMENT, []
    candidates = preferences.starts(recorded.episode)
    prior = preferences.prior_of(run.agent, recorded.phi, recorded.episode)
    known, gaps = None, {True: np.zeros((0, run.agent.task_size))}
    gaps[False] = gaps[True]
    for seed in range(count):
        starts = preferences.next_pair(recorded.phi, candidates, known, seed)
        spans = [(start, start + length) for start in starts]
        returns = [reward[recorded.reached[a:b]].sum() for a, b in spans]
        spans = spans if returns[0] >= returns[1] else spans[::-1]
        is_equal = returns[0] == returns[1]
        pairs.append([recorded.reached[a:b] for a, b in spans] + ["equal"] * int(is_equal))
        sums = preferences.segment_sums(recorded.phi, spans)
        gaps[is_equal] = np.vstack([gaps[is_equal], sums[0] - sums[1]])
        known = preferences.fit(gaps[False], gaps[True], prior)
    return run.infer(preferences=pairs)


def test_segments_are_ranges_of_the_recording_or_observations(cart: library.Run):
    recorded = cart.recording().in_order()
    by_range = cart.infer(preferences=[((0, 5), (20, 25))])
    shown = cart.infer(preferences=[(recorded.reached[0:5], recorded.reached[20:25])])
    np.testing.assert_allclose(by_range.w, shown.w, atol=1e-4)
    assert by_range.prompt is not None
    assert by_range.prompt.kind == "preferences"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "pairs of segments"),
        (
            [((7, 3), (0, 5))],
            r"\[7, 3\]; a segment is \[start, stop\] with 0 <= start < stop <= 400",
        ),
        ([((0, 5), (396, 401))], "<= 400"),
        ([((0, 5),)], "Preference 0 is no pair"),
        ([((0, 5), (0, 5))], "same features"),
        (["ab"], "Preference 0 is no pair"),
        ([((0, 5), (9, 14), "same")], 'two that are as good are \\(one, other, "equal"\\)'),
        ([((0, 5), (9, 14), "equal")], "say of one which is better"),
    ],
)
def test_what_is_no_preference_is_refused_in_one_sentence(
    cart: library.Run, given: Any, words: str
):
    with pytest.raises(UserError, match=words) as refused:
        cart.infer(preferences=given)
    assert "\n" not in str(refused.value)


def test_tables_show_what_fits_the_kind(cart: library.Run, tmp_path: Path):
    (tmp_path / "likes.json").write_text('{"pairs": [{"better": [0, 5], "worse": [9, 14]}]}')
    states = np.zeros((6, 4), np.float32)
    np.savez(tmp_path / "demo.npz", observations=states, actions=np.array([0, 1, 0, 1, 0, 1]))
    for flag, file, expected in (
        ("--preferences", "likes.json", ("1 answers", "agreeing answers", "cosine of samples")),
        ("--demonstration", "demo.npz", ("6 states", "mean phi . w", "agreeing actions")),
    ):
        answer = command("infer", cart.path, flag, tmp_path / file, "--out", tmp_path / "t.json")
        assert answer.code == 0, answer.err
        assert all(words in answer.out for words in expected), answer.out
        assert "R^2" not in answer.out
        assert "condition" not in answer.out
    compared = cart.inference.compare(cart.inference.prompt(preferences=[((0, 5), (9, 14))]))
    assert "agreeing answers of Bradley-Terry" in compared.summary()
