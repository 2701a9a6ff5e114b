"""visr bench: what it measures, prints and refuses. No speed is asserted."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from tests.test_cli import Answer, visr
from visr import config as configuration
from visr.bench import atari, latency, meter
from visr.config import presets

SMALL = ("--preset", "atari-small", "--num-envs", "4", "--seconds", "0.2")
ROUND = {"unroll_length": 5, "batch_size": 4}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Seconds of both clocks, which only the jobs of a test move."""
    now = {"wall": 0.0, "cpu": 0.0}
    monkeypatch.setattr(meter.time, "perf_counter", lambda: now["wall"])
    monkeypatch.setattr(meter, "_cpu_clocks", lambda: {7: now["cpu"], 8: 0.5 * now["cpu"]})
    return now


def test_turns_alternate_their_order_and_each_job_has_both_times(clock: dict[str, float]):
    # a unit of `a` takes 2 s and 1 s of the CPU, one of `b` 3 s and 3 s; the warm-up is not counted
    calls = []

    def job(name: str, wall: float, cpu: float) -> meter.Job:
        def work() -> int:
            calls.append(name)
            clock["wall"] += 10 * wall
            clock["cpu"] += 10 * cpu
            return 10

        return work

    turns = meter.take_turns({"a": job("a", 2, 1), "b": job("b", 3, 3)}, 1.0)
    assert calls == ["a", "b", *["a", "b", "b", "a"] * (meter.LEAST_TURNS // 2)]
    assert turns["a"]["wall"].tolist() == [2.0] * meter.LEAST_TURNS
    assert turns["a"]["cpu"].tolist() == [1.0] * meter.LEAST_TURNS
    assert turns.sum({"a": 2, "b": 0.5})["wall"].tolist() == [5.5] * meter.LEAST_TURNS


def test_a_short_job_is_repeated_for_its_share_of_the_time(clock: dict[str, float]):
    # 48 s for one job and 24 turns: 2 s a turn, which are 4 calls of 0.5 s
    calls = 0

    def job() -> int:
        nonlocal calls
        calls += 1
        clock["wall"] += 0.5
        return 1

    assert len(meter.take_turns({"job": job}, 48.0)["job"]["wall"]) == 24
    assert calls == 1 + 24 * 4


def test_the_ratio_is_the_median_over_turns_and_the_noise_that_of_the_limit_to_itself():
    # seconds per step by turn:  ours 1, 2, 4, 2;  limit 1, 1, 1, .5: ratios 1, .5, .25, .25
    ours = {"cpu": np.array([1.0, 2, 4, 2]), "wall": np.full(4, 4.0)}
    limit = {"cpu": np.array([1.0, 1, 1, 0.5]), "wall": np.full(4, 1.0)}
    assert meter.compared(ours, limit, "cpu") == {
        "steps_per_second": 0.5,
        "limit_steps_per_second": 1.0,
        "ratio": 0.375,
        "ratio_quartiles": [0.25, 0.625],
        "ratio_range": [0.25, 1.0],
        "quickest_ratio": 0.5,
        "clock": "cpu",
        "wall_ratio": 0.25,
        "noise": 1.5,  # 1 / 1 and 1 / .5
        "noise_quartiles": [1.25, 1.75],
        "turns": 4,
    }


@pytest.mark.skipif(sys.platform != "linux", reason="threads and children have clocks on Linux")
def test_the_clock_sees_children_that_have_not_ended():
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        before = meter._cpu_clocks()
        most, waits = 0.0, 0
        while most < 0.05 and waits < 30_000:  # this thread computes next to nothing
            time.sleep(0.01)
            waits += 1
            most = max(after - before.get(k, 0) for k, after in meter._cpu_clocks().items())
        assert most >= 0.05
    finally:
        child.kill()
        child.wait()


def assert_is_a_ratio(result: dict[str, Any], unit: str = "steps") -> None:
    assert 0 < result[f"{unit}_per_second"] < math.inf
    assert 0 < result[f"limit_{unit}_per_second"] < math.inf
    low, high = result["ratio_range"]
    assert 0 < low <= result["ratio"] <= high
    assert result["turns"] >= 8


def test_grid_is_measured_against_its_matrix_products():
    answer = visr("bench", "grid", "--json", "--seconds", "0.2", "--preset", "smoke").json
    assert_is_a_ratio(answer)
    assert answer["ratio"] >= answer["networks_ratio"]  # the environments take time, too
    assert answer["num_processes"] == 1


@pytest.mark.parametrize("processes", ["1", "2"])
def test_minatar_is_measured_against_its_networks_and_the_games_alone(processes: str):
    pytest.importorskip("minatar")
    small = ("--preset", "smoke", "--seconds", "0.2", "--num-processes", processes)
    answer = visr("bench", "minatar", *small, "--json").json
    assert_is_a_ratio(answer)
    assert answer["environment_share"] > 0
    assert (answer["env"], answer["num_processes"]) == ("MinAtar/Breakout-v1", int(processes))


def test_replay_updates_are_measured_against_the_passes_of_one_batch():
    answer = visr(
        "bench", "replay", "--preset", "replay-vectors", "--seconds", "0.2", "--json"
    ).json
    assert_is_a_ratio(answer, "updates")
    assert (answer["env"], answer["tasks_per_update"]) == ("CartPole-v1", 16)


def test_inference_is_measured_at_two_sizes_with_its_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(latency, "STEPS", 2_000)
    found = visr("bench", "infer", "--seconds", "0.2", "--json").json
    assert found.keys() == {"d = 5", "d = 128"}
    for one in found.values():
        assert_is_a_ratio(one, "tasks")
        assert 0 < one["memory_mb"] < 1_000


@pytest.mark.parametrize(("what", "unit"), [("refine", "updates"), ("explorer", "strokes")])
def test_answers_are_measured_against_passes(what: str, unit: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(latency, "_UPDATES", 10)
    answer = visr("bench", what, "--seconds", "0.1", "--json")
    assert answer.code == 0
    assert_is_a_ratio(json.loads(answer.out), unit)  # stderr may hold the recording's progress


def test_a_policy_is_measured_on_the_grid_and_on_minatar(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("minatar")
    pytest.importorskip("onnxruntime")
    found = visr("bench", "policy", "--seconds", "0.1", "--json").json
    assert found.keys() == {"grid", "minatar-breakout"}
    for one in found.values():
        assert_is_a_ratio(one, "actions")
        assert min(one[f"{k}_milliseconds"] for k in ("policy", "passes", "onnx")) > 0


def test_start_up_is_measured_by_whole_processes(monkeypatch: pytest.MonkeyPatch):
    quick = {"help": ["-m", "visr", "--help"], "python": ["-c", "pass"]}
    monkeypatch.setattr(latency, "_COMMANDS", quick)
    monkeypatch.setattr(latency, "_LIMITS", {"help": "python"})
    answer = visr("bench", "start", "--seconds", "0.1")
    assert answer.code == 0
    assert "help: seconds" in answer.out


# ----------------------------------------------------------------------------------- atari


@pytest.fixture(scope="module")
def measured() -> Answer:
    pytest.importorskip("ale_py")
    small = configuration.replace(presets.get("atari-small"), **ROUND, num_threads=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atari, "_BATCH_SIZES", (8, 16))
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
    monkeypatch.setattr(atari, "atari", lambda *_: result)
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
        ("pinball", "'pinball'", "'grid', 'minatar', 'atari', 'replay'"),
        ("report", "'report'", "'start'"),
        ("grid --num-processes 2", "--num-processes", "visr bench minatar"),
        ("minatar --num-processes 0", "num_processes = 0", "between 1 and 64"),
        ("replay --preset grid", "'grid'", "replay-vectors"),
        ("infer --preset grid", "--preset", "training loops"),
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


def test_long_time_slices_keep_the_share_of_the_cores():
    command = (
        "import os; from visr.bench.time_slices import ask_for_long_ones as ask\n"
        "before = os.getpriority(os.PRIO_PROCESS, 0)\n"
        "assert ask() in (True, False)\n"
        "print(os.getpriority(os.PRIO_PROCESS, 0) - before, os.sched_getscheduler(0))"
    )
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("0 0\n", "")
