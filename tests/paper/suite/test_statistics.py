"""Aggregates: worked by hand, by their properties, and against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from visr.paper.suite import statistics
from visr.paper.suite.statistics import Floats


def random_scores(seed: int, num_games: int = 12, num_seeds: int = 5) -> list[Floats]:
    random = np.random.default_rng(seed)
    level = random.lognormal(3, 1.5, size=num_games)
    return [random.normal(mean, 0.3 * mean, size=num_seeds) for mean in level]


def test_the_paper_s_aggregates_by_hand():
    # game      seed 0  seed 1   mean
    # pong        -10     -30     -20    below random
    # alien        60      90      75    exactly human level, and the rule is >=
    # boxing      100     200     150
    # median 75, mean 205 / 3; per seed: medians 60, 90: std 15 sqrt 2; means 50, 260/3: std 110/3 / sqrt 2
    found = statistics.aggregate(
        {"pong": {0: -10, 1: -30}, "alien": {0: 60, 1: 90}, "boxing": {0: 100, 1: 200}}
    )
    assert (found.num_games, found.num_seeds) == (3, 2)
    assert found.median == 75
    assert found.mean == pytest.approx(205 / 3)
    assert found.median_std == pytest.approx(15 * np.sqrt(2))
    assert found.mean_std == pytest.approx(110 / 3 / np.sqrt(2))
    assert (found.num_above_random, found.num_at_75, found.num_at_100) == (2, 2, 1)
    # six runs, one cut at either end: -10, 60, 90, 100
    assert found.iqm == pytest.approx(60)


def test_a_single_seed_has_no_deviation_and_no_interval():
    found = statistics.aggregate({"pong": {0: 1.0}, "alien": {0: 3.0}})
    assert found.median_std is None
    assert found.iqm_interval is None


def test_deviations_take_only_seeds_that_played_every_game():
    found = statistics.aggregate({"pong": {0: 1.0, 1: 3.0, 2: 50.0}, "alien": {0: 1.0, 1: 3.0}})
    assert found.mean_std == pytest.approx(np.sqrt(2))
    assert found.num_seeds == 2


def test_intervals_agree_with_a_plain_loop():
    """With other random draws: bounds agree to a fraction of their distance."""
    seed, scores = 0, [*random_scores(0), np.array([1.0, 2.0, 4.0])]  # one game with fewer seeds
    found = statistics.interval(scores, statistics.iqm)
    assert found is not None
    random = np.random.RandomState(seed + 100)
    values = []
    for _ in range(2000):
        drawn = [random.choice(game, size=len(game)) for game in scores]
        values.append(scipy.stats.trim_mean(np.concatenate(drawn), 0.25))
    low, high = np.percentile(values, [2.5, 97.5])
    assert found.low == pytest.approx(low, abs=0.06 * (high - low))
    assert found.high == pytest.approx(high, abs=0.06 * (high - low))


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """20 seeds of 4 games around 0: the interval contains 0 in a little less than 95 % of 300 cases."""
    random = np.random.default_rng(0)
    hits = 0
    for case in range(300):
        scores = [random.normal(size=20) for _ in range(4)]
        found = statistics.interval(scores, statistics.mean, seed=case)
        assert found is not None
        hits += found.low <= 0 <= found.high
    assert 0.90 <= hits / 300 <= 0.98


def test_the_same_scores_make_the_same_interval():
    once, again = (statistics.interval(random_scores(1), statistics.iqm) for _ in range(2))
    assert once == again


def test_probability_of_improvement_by_hand():
    # game 1: 3 > 1, 3 > 2, 2 > 1, 2 = 2: 3.5 of 4;  game 2: never.  (0.875 + 0) / 2
    x = [np.array([3.0, 2.0]), np.array([0.0, 0.0])]
    y = [np.array([1.0, 2.0]), np.array([5.0, 6.0])]
    assert statistics.improvement(x, y).probability == pytest.approx(0.4375)


@pytest.mark.parametrize("seed", range(3))
def test_probability_of_improvement_is_mann_whitney_s_u(seed: int):
    x, y = random_scores(seed), random_scores(seed + 50)
    expected = np.mean(
        [
            scipy.stats.mannwhitneyu(a, b).statistic / (len(a) * len(b))
            for a, b in zip(x, y, strict=True)
        ]
    )
    assert statistics.improvement(x, y).probability == pytest.approx(float(expected))


def test_the_probabilities_of_both_directions_sum_to_one():
    x, y = random_scores(0), random_scores(9)
    there, back = statistics.improvement(x, y), statistics.improvement(y, x)
    assert there.probability + back.probability == pytest.approx(1)


@pytest.mark.parametrize(
    ("x", "verdict"),
    [
        ([np.array([5.0, 6.0, 7.0])] * 4, "holds"),
        ([np.array([-5.0, -6.0, -7.0])] * 4, "does not hold"),
        ([np.array([-5.0, 6.0, 1.0])] * 4, "not enough evidence"),
        ([np.array([5.0])] * 4, "not enough evidence"),
    ],
)
def test_verdicts_in_plain_words(x: list[Floats], verdict: str):
    y = [np.array([0.0, 1.0, 2.0])] * 4
    assert statistics.improvement(x, y).verdict == verdict


def test_a_profile_is_the_share_of_runs_above_each_threshold_averaged_over_games():
    # above 0: all of game 1, half of game 2; above 10: 1 of 3 and half; above 100: none
    scores = [np.array([5.0, 10.0, 20.0]), np.array([-1.0, 50.0])]
    found = statistics.profile(scores, np.array([0.0, 10.0, 100.0]))
    np.testing.assert_allclose(found.y, [0.75, (1 / 3 + 1 / 2) / 2, 0])
    assert found.interval is not None
    assert (found.interval.low <= found.y + 1e-12).all()
    assert (found.y <= found.interval.high + 1e-12).all()


def test_a_profile_never_rises():
    found = statistics.profile(random_scores(4), np.linspace(-50, 500, 100))
    assert (np.diff(found.y) <= 0).all()
