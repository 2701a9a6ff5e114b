"""The simulated cluster: its limits are the ones that can be worked out by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("ray")

from experiments import cluster_simulation as simulation
from experiments.cluster_simulation import Times

SIZES = {"unrolls_per_actor": 1, "batch_size": 32, "unroll_length": 40, "max_staleness": 8}


def test_with_few_actors_speed_grows_with_their_number():
    # an unroll of 40 steps takes 2 s, learning next to nothing: 20 steps/s per actor
    times = Times(act=(2.0,), transfer=0.0, learn=0.01, request=0.0)
    one, ten = (simulation.simulate(times, number, **SIZES) for number in (1, 10))
    assert one.steps_per_second == pytest.approx(20, rel=0.02)
    assert ten.steps_per_second == pytest.approx(200, rel=0.02)
    assert one.actors_busy == pytest.approx(1, abs=0.01)


def test_with_many_actors_the_learner_is_the_limit():
    # an update of 32 x 40 steps takes 4 s: 320 steps/s, however many act
    times = Times(act=(2.0,), transfer=0.0, learn=4.0, request=0.0)
    outcome = simulation.simulate(times, 200, **SIZES)
    assert outcome.steps_per_second == pytest.approx(320, rel=0.02)
    assert outcome.learner_busy == pytest.approx(1, abs=0.02)
    assert outcome.actors_busy < 0.2
    assert 0 < outcome.staleness <= 8


def test_a_slow_link_is_a_limit():
    # 0.1 s for every unroll, one at a time: 400 steps/s
    times = Times(act=(2.0,), transfer=0.1, learn=0.01, request=0.0)
    outcome = simulation.simulate(times, 100, **SIZES)
    assert outcome.steps_per_second == pytest.approx(400, rel=0.05)
    assert outcome.link_busy == pytest.approx(1, abs=0.05)


def test_saturation_is_where_the_hand_worked_ratio_says():
    # an actor makes half an unroll per second, the learner uses 32 in 4 s: 8 per second, so 16 actors
    times = Times(act=(2.0,), transfer=0.0, learn=4.0, request=0.0)
    assert simulation.actors_per_learner(2.0, 1, 4.0, 32) == 16
    outcomes = [simulation.simulate(times, number, **SIZES) for number in (4, 8, 16, 32, 64)]
    assert simulation.saturation(outcomes) == 16


def test_actors_of_different_speed_are_counted_exactly():
    times = Times(act=(0.5, 1.0, 8.0), transfer=0.01, learn=1.0, request=0.001)
    outcome = simulation.simulate(times, 64, **SIZES)
    assert outcome.staleness <= 8
    assert 0 <= outcome.dropped < 0.5
    assert outcome == simulation.simulate(times, 64, **SIZES)
