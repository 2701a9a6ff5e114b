"""Many tabs at once: every stroke is answered, and memory does not grow."""

from __future__ import annotations

from pathlib import Path

from tests.explorer import load


def test_no_answer_is_lost_when_many_tabs_paint(trained: Path):
    found = load.measure(str(trained), num_tabs=8, seconds=3)
    assert found["requests"] >= 8
    assert found["lost"] == 0
    assert found["megabytes_at_the_end"] < found["megabytes_after_a_quarter"] + 50
