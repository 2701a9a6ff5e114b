"""visr bench explorer: the real command, briefly."""

from __future__ import annotations

import pytest

from tests.test_cli import visr


def test_strokes_and_frames_are_measured_over_the_wire():
    pytest.importorskip("minatar")
    game = ("--env", "MinAtar/Breakout-v1", "--preset", "minatar")
    answer = visr("bench", "explorer", *game, "--seconds", "0.5", "--json").json
    assert answer["ratio"] == pytest.approx(
        answer["steps_per_second"] / answer["limit_steps_per_second"]
    )
    assert 0 < answer["stroke_p50_ms"] <= answer["stroke_p95_ms"] <= answer["stroke_max_ms"]
    assert answer["num_strokes"] >= 20


def test_what_does_not_belong_is_refused():
    answer = visr("bench", "explorer", "--num-envs", "3")
    assert answer.code == 2
    assert "--num-envs belongs" in answer.err
