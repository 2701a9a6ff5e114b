"""visr bench: what it measures, prints and refuses. No speed is asserted."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import pytest

from tests.test_cli import Answer, visr
from visr import bench
from visr import config as configuration
from visr.config import presets

SMALL = ("--preset", "atari-small", "--num-envs", "4", "--seconds", "0.2")
ROUND = {"unroll_length": 5, "batch_size": 4}


def test_jobs_take_turns_and_each_turn_has_a_rate(monkeypatch: pytest.MonkeyPatch):
    # 20 s are 5 turns of 2 s a job; `slow` makes 10 steps in 2 s, `fast` 30 in 1 s, so it runs twice
    now, calls = 0.0, []
    monkeypatch.setattr(bench.time, "perf_counter", lambda: now)

    def job(name: str, num_steps: int, seconds: float) -> bench.Job:
        def work() -> int:
            nonlocal now
            calls.append(name)
            now += seconds
            return num_steps

        return work

    rates = bench.take_turns({"slow": job("slow", 10, 2.0), "fast": job("fast", 30, 1.0)}, 20.0)
    assert calls == ["slow", "fast", "fast"] * 5
    assert rates["slow"].tolist() == [5.0] * 5
    assert rates["fast"].tolist() == [30.0] * 5


def test_a_job_that_outlasts_the_time_runs_once(monkeypatch: pytest.MonkeyPatch):
    now = 0.0
    monkeypatch.setattr(bench.time, "perf_counter", lambda: now)

    def job() -> int:
        nonlocal now
        now += 100.0
        return 50

    assert bench.take_turns({"job": job}, seconds=1.0)["job"].tolist() == [0.5]


def test_the_ratio_is_the_median_over_turns_with_its_range():
    # turn    1    2    3
    # loop   10   30   40
    # limit  20   40  200     ratios .5  .75  .2
    result = bench.compared(np.array([10.0, 30, 40]), np.array([20.0, 40, 200]))
    assert result == {
        "steps_per_second": 30,
        "limit_steps_per_second": 40,
        "ratio": 0.5,
        "ratio_range": [0.2, 0.75],
    }


def assert_is_a_ratio(result: dict[str, Any]) -> None:
    assert 0 < result["steps_per_second"] < math.inf
    assert 0 < result["limit_steps_per_second"] < math.inf
    low, high = result["ratio_range"]
    assert 0 < low <= result["ratio"] <= high


def test_grid_is_measured_against_its_matrix_products():
    answer = visr("bench", "grid", "--json", "--seconds", "0.2", "--preset", "smoke").json
    assert_is_a_ratio(answer)
    assert answer["num_processes"] == 1


def test_minatar_is_measured_against_its_networks_and_the_games_alone():
    pytest.importorskip("minatar")
    answer = visr("bench", "minatar", "--preset", "smoke", "--seconds", "0.2", "--json").json
    assert_is_a_ratio(answer)
    assert answer["environment_share"] > 0
    assert answer["env"] == "MinAtar/Breakout-v1"


# ----------------------------------------------------------------------------------- atari


@pytest.fixture(scope="module")
def measured() -> Answer:
    pytest.importorskip("ale_py")
    small = configuration.replace(presets.get("atari-small"), **ROUND, num_threads=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "_BATCH_SIZES", (8, 16))
        patch.setattr(presets, "get", lambda _: small)
        return visr("bench", "atari", *SMALL, "--json")


@pytest.fixture(scope="module")
def result(measured: Answer) -> dict[str, Any]:
    return json.loads(measured.out, parse_constant=pytest.fail)


def test_results_are_one_object_on_stdout_and_progress_goes_to_stderr(measured: Answer):
    assert measured.code == 0
    assert measured.out.count("\n") == 1
    assert "Warming up" in measured.err
    assert "Turn 1:" in measured.err


def test_every_speed_of_atari_is_finite_and_positive(result: dict[str, Any]):
    assert_is_a_ratio(result)
    for name in (
        "environment_steps_per_second",
        "float32_default_layout_steps_per_second",
        "speedup",
        "peak_memory_mb",
    ):
        assert 0 < result[name] < math.inf
    assert result["memory_growth_mb"] >= 0


def test_the_limit_is_two_forward_passes_and_two_forward_and_backward(result: dict[str, Any]):
    # forward: acting, target network; forward and backward: psi, phi
    assert result["limit_passes_per_step"] == {"forward": 2, "forward_backward": 2}
    assert result["limit_passes_per_second"].keys() == {"forward", "forward_backward"}


def test_the_fastest_way_of_each_pass_is_named(result: dict[str, Any]):
    for name in ("limit_batch_size", "limit_precision", "limit_channels_last"):
        assert result[name].keys() == {"forward", "forward_backward"}
    assert set(result["limit_batch_size"].values()) <= {8, 16}
    assert set(result["limit_precision"].values()) <= {"float32", "bfloat16"}
    assert (result["env"], result["num_envs"], result["batch_size"]) == ("ALE/Pong-v5", 4, 4)


def test_without_json_the_same_result_is_a_table(
    result: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bench, "atari", lambda *_: result)
    answer = visr("bench", "atari", *SMALL)
    assert answer.code == 0
    assert answer.out.startswith("visr bench atari, preset atari-small\n")
    assert all(name.replace("_", " ") in answer.out for name in result)
    assert "2 forward, 2 forward + backward" in answer.out


# ------------------------------------------------------------------------------ bad input


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
        ("report", "'report'", "'grid', 'minatar', 'atari'"),
        ("grid --env ALE/Pong-v5", "--env", "visr bench atari"),
        ("grid --num-envs 8", "--num-envs", "visr bench atari"),
        ("minatar --env CartPole-v1", "'CartPole-v1'", "MinAtar/Breakout-v1"),
        ("minatar --num-envs 3", "--num-envs", "visr bench atari"),
    ],
)
def test_bad_input_is_one_sentence(arguments: str, names: str, helps: str):
    answer = visr("bench", *arguments.split())
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert names in answer.err
    assert helps in answer.err


def test_without_ale_py_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ale_py.vector_env", None)
    answer = visr("bench", "atari", *SMALL)
    assert (answer.code, answer.out) == (2, "")
    assert 'pip install "visr[atari]"' in answer.err
