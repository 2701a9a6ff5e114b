"""The ledger of a plan: a CSV file with one row per job, and a lock on the plan's directory."""

from __future__ import annotations

import contextlib
import csv
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from visr.errors import UserError
from visr.paper.reproduce.plan import Job, Plan
from visr.storage import lock, new_files
from visr.storage.files import (
    CHECKSUM,
    read_bytes,
    read_json,
    reading,
    sha256,
    write_bytes,
    writing,
)
from visr.storage.run_dir import RunDir
from visr.storage.tables import csv_text

_STATES = ("pending", "running", "done", "failed")
_MAX_BYTES = 64 * 1024 * 1024
_LOCK_TIMEOUT = 15.0
"""Seconds in which the jobs of a killed plan notice that and exit."""


@dataclass(frozen=True)
class Row:
    """The state of one job."""

    job: str
    agent: str
    game: str
    seed: int
    phase: str
    state: str
    num_steps: int
    config_hash: str
    attempts: int = 0
    """How often it was started."""
    seconds: float = 0.0
    """Sum over all attempts whose end was recorded."""
    started: float = 0.0
    """When the last attempt started: seconds since 1970."""
    ended: float = 0.0
    error: str = ""
    """Why it failed, in one sentence."""


_COLUMNS = tuple(field.name for field in fields(Row))
_KINDS = {"int": int, "float": float, "str": str}


class Ledger:
    """All rows of a plan's directory; only the process that holds the lock changes them."""

    def __init__(self, directory: Path) -> None:
        new_files.confine(directory)
        self.directory = directory
        self._file = directory / "ledger.csv"
        self.rows: dict[str, Row] = {row.job: row for row in read(self._file)}

    def add(self, plan: Plan) -> None:
        """Add the plan's new jobs; unfinished jobs and those whose result is lost become pending."""
        self.check_settings(plan)
        for job in plan.jobs:
            known = self.rows.get(job.id)
            if known is None:
                self.rows[job.id] = new_row(job)
            elif known.state in ("running", "failed") or self._is_lost(job):
                # no process runs it any more: this one holds the lock
                self.rows[job.id] = replace(known, state="pending")
        self._write()

    def check_settings(self, plan: Plan) -> None:
        """Refuse a plan whose job is already in the ledger with other settings."""
        for job in plan.jobs:
            known = self.rows.get(job.id)
            if known is not None and known.config_hash != job.config_hash:
                raise UserError(
                    f"{self.directory} holds {job.id} with other settings (config hash "
                    f"{known.config_hash}, not {job.config_hash}); choose another --out."
                )

    def _is_lost(self, job: Job) -> bool:
        """Whether the file that a finished job writes into its run is missing or damaged."""
        run = RunDir(self.directory / job.run)
        written = {"train": run.config_file, "evaluate": run.phase_two, "adapt": run.adapted}
        try:
            read_json(written[job.phase])
        except UserError:
            return True
        return False

    def change(self, job: Job, **columns: Any) -> Row:
        """Change columns of a job's row; they are on disk when this returns."""
        self.rows[job.id] = replace(self.rows[job.id], **columns)
        self._write()
        return self.rows[job.id]

    def start(self, job: Job) -> None:
        """Record that an attempt of the job begins."""
        attempts = self.rows[job.id].attempts + 1
        now = round(time.time(), 1)
        self.change(job, state="running", attempts=attempts, started=now, error="")

    def end(self, job: Job, state: str, seconds: float, error: str = "") -> Row:
        """Record the end of an attempt that took so many seconds."""
        total, now = round(self.rows[job.id].seconds + seconds, 1), round(time.time(), 1)
        return self.change(job, state=state, seconds=total, ended=now, error=error)

    def state(self, job: Job) -> str:
        """The state of a job; "pending" if the ledger has no row for it."""
        return self.rows[job.id].state if job.id in self.rows else "pending"

    def is_ready(self, job: Job) -> bool:
        """Whether the job is pending and, unless it trains, its run is trained."""
        trained = self.rows.get(job.training_id)
        can_start = job.phase == "train" or (trained is not None and trained.state == "done")
        return self.state(job) == "pending" and can_start

    def seconds_left(self, plan: Plan) -> dict[str, float | None]:
        """By agent: seconds of work left on one core, at the speed of its finished jobs; None: unknown."""
        left: dict[str, float | None] = dict.fromkeys((job.agent for job in plan.jobs), 0.0)
        for job in (job for job in plan.jobs if self.state(job) != "done"):
            known, speed = left[job.agent], self._speed(job.agent, job.phase)
            left[job.agent] = known + job.num_steps / speed if speed and known is not None else None
        return left

    def _speed(self, agent: str, phase: str) -> float | None:
        """Steps per second of an agent's finished jobs of a phase, else of its training."""
        done = [
            row
            for row in self.rows.values()
            if (row.agent, row.phase, row.state) == (agent, phase, "done") and row.num_steps
        ]
        seconds = sum(row.seconds for row in done)
        if seconds:
            return sum(row.num_steps for row in done) / seconds
        return self._speed(agent, "train") if phase == "evaluate" else None

    def _write(self) -> None:
        rows = [[str(getattr(row, name)) for name in _COLUMNS] for row in self.rows.values()]
        lines = [[*_COLUMNS, CHECKSUM], *([*row, _checksum(row)] for row in rows)]
        write_bytes(self._file, csv_text(lines).encode())


def new_row(job: Job) -> Row:
    """The row of a job that was not started."""
    same = ("agent", "game", "seed", "phase", "num_steps", "config_hash")
    return Row(job=job.id, state="pending", **{name: getattr(job, name) for name in same})


def read(path: Path) -> list[Row]:
    """The checked rows of a ledger; none if the file does not exist."""
    if not path.exists():
        return []
    with reading(path):
        text = read_bytes(path, _MAX_BYTES).decode("utf-8")
    try:
        reader = csv.DictReader(io.StringIO(text))
        if missing := set(_COLUMNS) - set(reader.fieldnames or ()):
            raise ValueError(f"it has no column {min(missing)}")
        if unknown := set(reader.fieldnames or ()) - {*_COLUMNS, CHECKSUM}:
            raise ValueError(f"it has a column {min(unknown)!r}")
        return [_row(values) for values in reader]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise UserError(
            f"{path} is damaged ({error}); restore it, or move its directory away and start again."
        ) from None


def _checksum(columns: list[str]) -> str:
    return sha256("\n".join(columns))[:16]


def _row(values: dict[str, str]) -> Row:
    if None in values.values():
        raise ValueError(f"the row of {values['job']} is cut short")
    checksum = _checksum([values[name] for name in _COLUMNS])
    if values.get(CHECKSUM, checksum) != checksum:
        raise ValueError(f"the row of {values['job']} does not match its checksum")
    row = Row(**{f.name: _KINDS[str(f.type)](values[f.name]) for f in fields(Row)})
    if row.state not in _STATES:
        raise ValueError(f"{row.state!r} is not a state")
    return row


@contextlib.contextmanager
def locked(directory: Path, timeout: float = _LOCK_TIMEOUT) -> Iterator[int]:
    """Lock the plan's directory; jobs inherit the descriptor and so hold the lock, too.

    The next runner therefore waits until the last job of a killed runner has exited.
    """

    def refusal(holder: str) -> str:
        return (
            f"Another `visr reproduce` is at work in {directory} ({holder}); wait for it, stop it, or "
            "choose another --out."
        )

    with contextlib.ExitStack() as stack:
        with writing(directory):
            new_files.make_directories(directory)
            held = lock.held(directory / "ledger.lock", refusal, timeout, keep=True)
            descriptor = stack.enter_context(held)
        yield descriptor
