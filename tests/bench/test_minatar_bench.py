"""visr bench minatar: the real command, briefly."""

from __future__ import annotations

import pytest

from tests.test_cli import visr


def test_the_loop_is_measured_against_its_networks_and_the_games_alone():
    pytest.importorskip("minatar")
    answer = visr("bench", "minatar", "--seconds", "0.5", "--json").json
    assert answer["ratio"] == pytest.approx(
        answer["steps_per_second"] / answer["limit_steps_per_second"]
    )
    assert answer["environment_share"] > 0
    assert answer["env"] == "MinAtar/Breakout-v1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--env", "CartPole-v1"), "no MinAtar game"), (("--num-envs", "3"), "--num-envs belongs")],
)
def test_what_does_not_belong_is_refused(arguments: tuple[str, ...], words: str):
    answer = visr("bench", "minatar", *arguments)
    assert answer.code == 2
    assert words in answer.err
