"""The ledger: its rows, its checks, its lock, and the time left."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from visr.errors import UserError
from visr.paper.reproduce import plan
from visr.paper.reproduce.ledger import Ledger, locked, read


def write_results(directory: Path, *files: str, text: str = "{}") -> None:
    """Write the files that a finished job writes into its run."""
    run = directory / PLAN.jobs[0].run
    run.mkdir(parents=True, exist_ok=True)
    for name in files:
        (run / name).write_text(text)


PLAN = plan.make("minatar", only=["visr"], chosen_games=["breakout"], seeds=[0])


def test_a_row_holds_state_hash_seed_and_times(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.add(PLAN)
    ledger.change(PLAN.jobs[0], state="done", seconds=12.5, attempts=2)
    first, second = read(tmp_path / "ledger.csv")
    assert (first.state, first.seconds, first.attempts) == ("done", 12.5, 2)
    assert (first.seed, first.config_hash) == (0, PLAN.jobs[0].config_hash)
    assert (second.state, second.phase) == ("pending", "evaluate")


def test_running_jobs_become_pending_after_a_crash_and_done_jobs_stay_done(
    tmp_path: Path,
):
    ledger = Ledger(tmp_path)
    ledger.add(PLAN)
    ledger.change(PLAN.jobs[0], state="done")
    write_results(tmp_path, "config.json")
    ledger.change(PLAN.jobs[1], state="running", attempts=1)
    again = Ledger(tmp_path)
    again.add(PLAN)
    assert [again.state(job) for job in PLAN.jobs] == ["done", "pending"]
    assert again.rows[PLAN.jobs[1].id].attempts == 1


def test_a_plan_with_other_settings_is_refused_and_changes_nothing(tmp_path: Path):
    Ledger(tmp_path).add(PLAN)
    before = (tmp_path / "ledger.csv").read_bytes()
    other = plan.make(
        "minatar", only=["visr"], chosen_games=["breakout"], seeds=[0], num_steps=5_000
    )
    with pytest.raises(UserError, match="other settings"):
        Ledger(tmp_path).add(other)
    assert (tmp_path / "ledger.csv").read_bytes() == before


def test_jobs_with_missing_or_damaged_results_become_pending(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.add(PLAN)
    for job in PLAN.jobs:
        ledger.change(job, state="done")
    write_results(tmp_path, "config.json", "phase_two.json")
    for name, states in (
        ("phase_two.json", ["done", "pending"]),
        ("config.json", ["pending", "done"]),
    ):
        write_results(tmp_path, "config.json", "phase_two.json")
        write_results(tmp_path, name, text="garbage")
        again = Ledger(tmp_path)
        again.add(PLAN)
        assert [again.state(job) for job in PLAN.jobs] == states
        for job in PLAN.jobs:
            again.change(job, state="done")
    shutil.rmtree(tmp_path / PLAN.jobs[0].run)
    again.add(PLAN)
    assert {again.state(job) for job in PLAN.jobs} == {"pending"}


def test_a_larger_plan_adds_rows(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.add(PLAN)
    ledger.change(PLAN.jobs[0], state="done")
    write_results(tmp_path, "config.json")
    larger = plan.make("minatar", only=["visr", "uniform"], chosen_games=["breakout"], seeds=[0])
    ledger.add(larger)
    assert [row.state for row in ledger.rows.values()] == ["done", "pending", "pending", "pending"]


@pytest.mark.parametrize("text", ["not,a\nledger,file\n", "job\n", "\x00"])
def test_a_damaged_ledger_is_refused(tmp_path: Path, text: str):
    Ledger(tmp_path).add(PLAN)
    rows = (tmp_path / "ledger.csv").read_text()
    (tmp_path / "ledger.csv").write_text(rows.replace("pending", "perhaps"))
    with pytest.raises(UserError, match="damaged"):
        Ledger(tmp_path)
    (tmp_path / "ledger.csv").write_text(f"{text}x,y\n")
    with pytest.raises(UserError, match="damaged"):
        Ledger(tmp_path)


def test_a_truncated_ledger_names_the_row(tmp_path: Path):
    Ledger(tmp_path).add(PLAN)
    whole = (tmp_path / "ledger.csv").read_text()
    (tmp_path / "ledger.csv").write_text(whole[: whole.rindex(PLAN.jobs[1].id) + 70])
    with pytest.raises(UserError, match=f"the row of {PLAN.jobs[1].id} is cut short"):
        Ledger(tmp_path)


def test_a_flipped_bit_never_changes_a_value(tmp_path: Path):
    Ledger(tmp_path).add(PLAN)
    path = tmp_path / "ledger.csv"
    whole, rows = path.read_bytes(), read(tmp_path / "ledger.csv")
    for at in range(whole.index(b"\n"), len(whole)):
        spoilt = bytearray(whole)
        spoilt[at] ^= 1
        path.write_bytes(spoilt)
        try:
            found = read(path)
        except UserError:
            continue
        assert found == rows


def test_two_runners_cannot_lock_one_directory(tmp_path: Path):
    with (
        locked(tmp_path),
        pytest.raises(UserError, match="at work"),
        locked(tmp_path, timeout=0.1),
    ):
        pass
    with locked(tmp_path):
        pass


def test_a_job_that_inherited_the_lock_holds_it_until_it_exits(tmp_path: Path):
    sleeper = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with locked(tmp_path) as lock:
        job = subprocess.Popen(sleeper, stdin=subprocess.PIPE, pass_fds=(lock,))
    assert job.stdin is not None
    with pytest.raises(UserError, match="at work"), locked(tmp_path, timeout=0.1):
        pass
    job.stdin.close()
    job.wait()
    with locked(tmp_path):
        pass


TWO_AGENTS = plan.make(
    "minatar", only=["visr", "nsq-1k"], chosen_games=["breakout"], seeds=[0, 1], num_steps=4_000
)


def test_time_left_follows_from_the_speed_of_finished_jobs(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.add(TWO_AGENTS)
    for job in TWO_AGENTS.jobs:
        if job.seed == 0 and job.phase == "train":
            ledger.change(job, state="done", seconds=2.0)  # visr: 2,000 steps/s; nsq: 500
    # visr: one training of 4,000 and two evaluations of three times 100,000 rewarded steps; nsq: one training
    assert ledger.seconds_left(TWO_AGENTS) == {
        "visr": pytest.approx(604_000 / 2_000),
        "nsq-1k": pytest.approx(2.0),
    }


def test_time_left_is_unknown_without_a_finished_job_and_zero_at_the_end(tmp_path: Path):
    ledger = Ledger(tmp_path)
    assert ledger.seconds_left(TWO_AGENTS) == {"visr": None, "nsq-1k": None}
    ledger.add(TWO_AGENTS)
    for job in TWO_AGENTS.jobs:
        ledger.change(job, state="done", seconds=1.0)
    assert ledger.seconds_left(TWO_AGENTS) == {"visr": 0, "nsq-1k": 0}
