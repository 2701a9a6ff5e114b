"""The ledger: rows that survive, a lock that holds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from visr.errors import UserError
from visr.paper.reproduce import plan
from visr.paper.reproduce.ledger import Ledger, locked, read


def leave(directory: Path, *files: str, text: str = "{}") -> None:
    """What a finished job leaves in its run."""
    run = directory / PLAN.jobs[0].run
    run.mkdir(parents=True, exist_ok=True)
    for name in files:
        (run / name).write_text(text)


PLAN = plan.make("minatar", only=["visr"], chosen_games=["breakout"], seeds=[0])


def test_a_row_has_the_job_s_state_hash_seed_and_times(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.adopt(PLAN)
    ledger.change(PLAN.jobs[0], state="done", seconds=12.5, attempts=2)
    first, second = read(tmp_path / "ledger.csv")
    assert (first.state, first.seconds, first.attempts) == ("done", 12.5, 2)
    assert (first.seed, first.config_hash) == (0, PLAN.jobs[0].config_hash)
    assert (second.state, second.phase) == ("pending", "evaluate")


def test_what_ran_when_the_runner_died_is_pending_again_and_what_was_done_stays_done(
    tmp_path: Path,
):
    ledger = Ledger(tmp_path)
    ledger.adopt(PLAN)
    ledger.change(PLAN.jobs[0], state="done")
    leave(tmp_path, "config.json")
    ledger.change(PLAN.jobs[1], state="running", attempts=1)
    again = Ledger(tmp_path)
    again.adopt(PLAN)
    assert [again.state(job) for job in PLAN.jobs] == ["done", "pending"]
    assert again.rows[PLAN.jobs[1].id].attempts == 1


def test_a_plan_with_other_settings_is_refused_and_changes_nothing(tmp_path: Path):
    Ledger(tmp_path).adopt(PLAN)
    before = (tmp_path / "ledger.csv").read_bytes()
    other = plan.make(
        "minatar", only=["visr"], chosen_games=["breakout"], seeds=[0], num_steps=5_000
    )
    with pytest.raises(UserError, match="other settings"):
        Ledger(tmp_path).adopt(other)
    assert (tmp_path / "ledger.csv").read_bytes() == before


def test_what_is_gone_or_damaged_is_done_again(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.adopt(PLAN)
    for job in PLAN.jobs:
        ledger.change(job, state="done")
    leave(tmp_path, "config.json", "phase_two.json")
    for name, states in (
        ("phase_two.json", ["done", "pending"]),
        ("config.json", ["pending", "done"]),
    ):
        leave(tmp_path, "config.json", "phase_two.json")
        leave(tmp_path, name, text="garbage")
        again = Ledger(tmp_path)
        again.adopt(PLAN)
        assert [again.state(job) for job in PLAN.jobs] == states
        for job in PLAN.jobs:
            again.change(job, state="done")
    shutil.rmtree(tmp_path / PLAN.jobs[0].run)
    again.adopt(PLAN)
    assert {again.state(job) for job in PLAN.jobs} == {"pending"}


def test_a_larger_plan_adds_to_what_is_there(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.adopt(PLAN)
    ledger.change(PLAN.jobs[0], state="done")
    leave(tmp_path, "config.json")
    larger = plan.make("minatar", only=["visr", "uniform"], chosen_games=["breakout"], seeds=[0])
    ledger.adopt(larger)
    assert [row.state for row in ledger.rows.values()] == ["done", "pending", "pending", "pending"]


@pytest.mark.parametrize("text", ["not,a\nledger,file\n", "job\n", "\x00"])
def test_a_damaged_ledger_is_a_sentence(tmp_path: Path, text: str):
    Ledger(tmp_path).adopt(PLAN)
    rows = (tmp_path / "ledger.csv").read_text()
    (tmp_path / "ledger.csv").write_text(rows.replace("pending", "perhaps"))
    with pytest.raises(UserError, match="damaged"):
        Ledger(tmp_path)
    (tmp_path / "ledger.csv").write_text(f"{text}x,y\n")
    with pytest.raises(UserError, match="damaged"):
        Ledger(tmp_path)


def test_a_ledger_that_was_cut_short_names_the_row(tmp_path: Path):
    Ledger(tmp_path).adopt(PLAN)
    whole = (tmp_path / "ledger.csv").read_text()
    (tmp_path / "ledger.csv").write_text(whole[: whole.rindex(PLAN.jobs[1].id) + 70])
    with pytest.raises(UserError, match=f"the row of {PLAN.jobs[1].id} is cut short"):
        Ledger(tmp_path)


def test_no_flipped_bit_of_a_ledger_is_taken_for_a_value(tmp_path: Path):
    Ledger(tmp_path).adopt(PLAN)
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


def test_two_runners_cannot_hold_one_directory(tmp_path: Path):
    with (
        locked(tmp_path),
        pytest.raises(UserError, match="at work"),
        locked(tmp_path, patience=0.1),
    ):
        pass
    with locked(tmp_path):
        pass


def test_the_lock_is_held_for_as_long_as_a_job_that_inherited_it_lives(tmp_path: Path):
    sleeper = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with locked(tmp_path) as lock:
        job = subprocess.Popen(sleeper, stdin=subprocess.PIPE, pass_fds=(lock,))
    assert job.stdin is not None
    with pytest.raises(UserError, match="at work"), locked(tmp_path, patience=0.1):
        pass
    job.stdin.close()
    job.wait()
    with locked(tmp_path):
        pass
