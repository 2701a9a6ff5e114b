"""visr bench report: the real command, on few runs."""

from __future__ import annotations

import pytest

from tests.test_cli import visr


def test_the_report_is_measured_against_the_bare_reading_of_its_files():
    answer = visr("bench", "report", "--num-runs", "8", "--json").json
    assert answer["num_runs"] == 8
    assert answer["ratio"] == pytest.approx(
        answer["steps_per_second"] / answer["limit_steps_per_second"]
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "--env", "ALE/Pong-v5"), "--env does not go with"),
        (("report", "--num-runs", "0"), "num_runs = 0"),
        (("grid", "--num-runs", "3"), "--num-runs belongs"),
    ],
)
def test_what_does_not_belong_is_refused(arguments: tuple[str, ...], words: str):
    answer = visr("bench", *arguments)
    assert answer.code == 2
    assert words in answer.err
