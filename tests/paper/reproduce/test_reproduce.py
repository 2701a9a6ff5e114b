"""`visr reproduce`: killed several times, it ends with the same results."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from visr.cli import main
from visr.paper.reproduce import ledger

ARGUMENTS = ["reproduce", "minatar", "--games", "breakout", "--seeds", "0", "--num-steps", "10000"]
ARGUMENTS += ["--only", "diayn-5", "--rewarded-steps", "300", "--trials", "2"]
NUM_KILLS = 3
RESULTS = ("config.json", "job.json", "metrics.csv", "online.csv", "phase_two.json")


def start(out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "visr", *ARGUMENTS, "--out", str(out), "--jobs", "2"]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def size_of(out: Path) -> int:
    """A number that changes whenever any file does."""
    try:
        return sum(path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file())
    except OSError:  # a file was just removed: that is a change, too
        return -1


def results(out: Path) -> dict[str, bytes]:
    files = [path for path in sorted(out.rglob("*")) if path.name in RESULTS]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def settled(out: Path) -> dict[str, tuple[str, str]]:
    rows = ledger.read(out / "ledger.csv")
    return {row.job: (row.state, row.config_hash) for row in rows}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert start(out).wait() == 0
    return out


def test_a_job_writes_job_json_and_phase_two_json(undisturbed: Path):
    assert {state for state, _ in settled(undisturbed).values()} == {"done"}
    run = undisturbed / "runs" / "diayn-5" / "MinAtar-Breakout-v1" / "seed-0"
    job = json.loads((run / "job.json").read_text())
    assert (job["agent"], job["game"], job["seed"]) == ("diayn-5", "MinAtar/Breakout-v1", 0)
    phase_two = json.loads((run / "phase_two.json").read_text())
    names = [condition["name"] for condition in phase_two["conditions"]]
    assert names == ["env-search", "@0 (a new task every 40 steps)", "random policy"]
    assert len(phase_two["conditions"][0]["scores"]) == 6  # 2 episodes after each of 3 draws


def killed_before_the_end(out: Path, draw: random.Random) -> bool:
    """Start or continue the plan, wait for a few file changes and a little more, and kill it."""
    runner = start(out)
    for _ in range(draw.randrange(5)):
        before, deadline = size_of(out), time.monotonic() + 60
        while size_of(out) == before and runner.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
    time.sleep(draw.random() * 0.3)
    ended = runner.poll() is not None
    runner.kill()
    runner.wait()
    return not ended


def test_kills_at_random_moments_do_not_change_the_results(undisturbed: Path, tmp_path: Path):
    draw, killed, outs = random.Random(5), 0, [tmp_path / "0"]
    while killed < NUM_KILLS:
        if killed_before_the_end(outs[-1], draw):
            killed += 1
        else:  # a fast machine finished before the last kill: start another plan
            outs.append(tmp_path / str(len(outs)))
    assert start(outs[-1]).wait() == 0
    for out in outs:
        assert settled(out) == settled(undisturbed)
        assert results(out) == results(undisturbed)


def test_a_finished_plan_runs_nothing(undisturbed: Path, capsys: pytest.CaptureFixture[str]):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*.safetensors")}
    assert main([*ARGUMENTS, "--out", str(undisturbed), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["num_jobs"], said["done"], said["failed"]) == (2, 2, {})
    assert before == {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*.safetensors")}


def test_a_dry_run_shows_the_jobs_and_the_time_left(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main([*ARGUMENTS, "--out", str(undisturbed), "--dry-run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [job["state"] for job in shown["jobs"]] == ["done", "done"]
    assert (shown["seconds_by_agent"], shown["seconds"]) == ({"diayn-5": 0}, 0)
    assert main([*ARGUMENTS, "--out", str(tmp_path), "--dry-run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["speed_from"], shown["seconds"]) == ({"diayn-5": "not known yet"}, None)
    assert main([*ARGUMENTS, "--out", str(tmp_path), "--dry-run"]) == 0
    assert "not known yet" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_failed_job_is_reported_and_retried(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["reproduce", "grid", "--only", "visr", "--seeds", "0", "--num-steps", "100"]
    arguments += ["--out", str(tmp_path)]
    in_the_way = tmp_path / "runs" / "visr" / "visr-Grid-v0" / "seed-0"
    in_the_way.mkdir(parents=True)
    (in_the_way / "something.txt").write_text("else")
    assert main(arguments) == 1
    assert "exists already" in capsys.readouterr().err
    (row,) = ledger.read(tmp_path / "ledger.csv")
    assert (row.state, row.attempts) == ("failed", 1)
    (in_the_way / "something.txt").unlink()
    assert main(arguments) == 0
    (row,) = ledger.read(tmp_path / "ledger.csv")
    assert (row.state, row.attempts, row.error) == ("done", 2, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["minatar", "--only", "vizr"], "no agent 'vizr'"),
        (["minatar", "--paper"], "--paper"),
        (["minatar", "--jobs", "0"], "jobs = 0"),
        (["chess"], "reproduce --help"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["reproduce", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.ray
def test_ray_gives_the_same_results(undisturbed: Path, tmp_path: Path):
    pytest.importorskip("ray")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "visr", *ARGUMENTS, "--out", str(out), "--cluster", "local"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"2 of 2 jobs done: {out}\n"), done.stderr
    assert settled(out) == settled(undisturbed)
    assert results(out) == results(undisturbed)
