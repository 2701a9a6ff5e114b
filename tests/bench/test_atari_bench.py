"""The benchmark of Atari as a command: what it prints and what it refuses. No speed is asserted."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from visr.bench import atari
from visr.cli import main

SMALL = ("--preset", "atari-small", "--num-envs", "8", "--seconds", "1")
SPEEDS = (
    *("steps_per_second", "limit_steps_per_second", "ratio", "environment_steps_per_second"),
    *("float32_default_layout_steps_per_second", "speedup", "peak_memory_mb"),
)
KINDS = {"forward", "forward_backward"}


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def bench(*arguments: str) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["bench", *arguments])
    return Answer(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Several threads would wait for each other on a busy machine; children inherit this."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@pytest.fixture(scope="module")
def measured() -> Answer:
    pytest.importorskip("ale_py")
    with one_core(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(atari, "_BATCH_SIZES", (8, 16))
        return bench("atari", *SMALL, "--json")


@pytest.fixture(scope="module")
def result(measured: Answer) -> dict[str, Any]:
    return json.loads(measured.out, parse_constant=pytest.fail)


def test_results_are_one_object_on_stdout_and_remarks_go_to_stderr(measured: Answer):
    assert measured.code == 0
    assert measured.out.count("\n") == 1
    assert "Warming up" in measured.err
    assert "Turn 1:" in measured.err


def test_every_speed_is_finite_and_positive(result: dict[str, Any]):
    assert all(math.isfinite(result[name]) and result[name] > 0 for name in SPEEDS)
    assert math.isfinite(result["memory_growth_mb"])


def test_the_ratios_are_those_of_the_speeds_beside_them(result: dict[str, Any]):
    steps = result["steps_per_second"]
    assert result["ratio"] == pytest.approx(steps / result["limit_steps_per_second"])
    plain = result["float32_default_layout_steps_per_second"]
    assert result["speedup"] == pytest.approx(steps / plain)


def test_the_limit_is_the_time_of_two_passes_forward_and_two_forward_and_back(
    result: dict[str, Any],
):
    # acting and the target network; psi and phi
    assert result["limit_passes_per_step"] == {"forward": 2, "forward_backward": 2}
    speeds = result["limit_passes_per_second"]
    seconds = 2 / speeds["forward"] + 2 / speeds["forward_backward"]
    assert result["limit_steps_per_second"] == pytest.approx(1 / seconds)


def test_each_kind_of_pass_says_what_won(result: dict[str, Any]):
    for name in ("limit_batch_size", "limit_precision", "limit_channels_last"):
        assert result[name].keys() == KINDS
    assert set(result["limit_batch_size"].values()) <= {8, 16}
    assert set(result["limit_precision"].values()) <= {"float32", "bfloat16"}


def test_the_circumstances_are_told(result: dict[str, Any]):
    assert (result["env"], result["num_envs"], result["batch_size"]) == ("ALE/Pong-v5", 8, 8)


def test_without_json_the_same_is_a_table(result: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(atari, "measure", lambda *_: result)
    answer = bench("atari", *SMALL)
    assert answer.code == 0
    assert answer.out.startswith("visr bench atari, preset atari-small\n")
    assert all(name.replace("_", " ") in answer.out for name in result)
    assert "2 forward, 2 forward + backward" in answer.out


@pytest.mark.parametrize(
    ("arguments", "names", "helps"),
    [
        ("atari --preset enormous", "'enormous'", "there are paper"),
        ("atari --seconds 0", "seconds = 0.0", "greater than 0"),
        ("atari --seconds nan", "seconds = nan", "finite"),
        ("atari --num-envs 0", "num_envs = 0", "at least 1"),
        ("atari --env visr/Grid-v0", "'visr/Grid-v0'", "ALE/Pong-v5"),
        ("atari --env ALE/Pogn-v5", "'ALE/Pogn-v5'", "ALE/Pong-v5"),
        ("atari --wormholes 3", "--wormholes", "visr bench --help"),
        ("pinball", "'pinball'", "'grid', 'minatar', 'atari'"),
        ("grid --env ALE/Pong-v5", "--env", "visr bench atari"),
        ("grid --num-envs 8", "--num-envs", "visr bench atari"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_sentence(arguments: str, names: str, helps: str):
    answer = bench(*arguments.split())
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert names in answer.err
    assert helps in answer.err


def test_without_ale_py_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ale_py.vector_env", None)
    answer = bench("atari", *SMALL)
    assert (answer.code, answer.out) == (2, "")
    assert 'pip install "visr[atari]"' in answer.err


def test_a_loop_that_dies_is_one_sentence_too(monkeypatch: pytest.MonkeyPatch):
    def die(*_: object) -> None:
        raise EOFError("exit code -9")

    monkeypatch.setattr(atari, "measure", die)
    answer = bench("atari", *SMALL)
    assert answer.code == 2
    assert "exit code -9" in answer.err
    assert answer.err.count("\n") == 1
