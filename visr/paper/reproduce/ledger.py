"""The ledger: one row per job in a CSV file that is replaced as a whole, and a lock on its directory."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from visr.errors import UserError
from visr.paper.reproduce.plan import Job, Plan
from visr.storage import checksums, lock
from visr.storage.files import read_bytes, read_json, reading, write_bytes, writing
from visr.storage.run_dir import RunDir

State = Literal["pending", "running", "done", "failed"]
_STATES = ("pending", "running", "done", "failed")
_LARGEST = 64 * 1024 * 1024
_PATIENCE = 15.0
"""Seconds in which the jobs of a killed plan notice and end."""


@dataclass(frozen=True)
class Row:
    """What is known of a job."""

    job: str
    agent: str
    game: str
    seed: int
    phase: str
    state: str
    num_steps: int
    config_hash: str
    attempts: int = 0
    """How often it was begun."""
    seconds: float = 0.0
    """In all attempts that were seen to end."""
    started: float = 0.0
    """When the last attempt began: seconds since 1970."""
    ended: float = 0.0
    error: str = ""
    """Why it failed, in a sentence."""


_COLUMNS = tuple(field.name for field in fields(Row))
_KINDS = {"int": int, "float": float, "str": str}


class Ledger:
    """All rows of a directory; only the process that holds the lock changes them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file = directory / "ledger.csv"
        self.rows: dict[str, Row] = {row.job: row for row in read(self._file)}

    def adopt(self, plan: Plan) -> None:
        """Add the plan's jobs that are new; what was lost is to be done again."""
        self.refuse_others(plan)
        for job in plan.jobs:
            known = self.rows.get(job.id)
            if known is None:
                self.rows[job.id] = new_row(job)
            elif known.state in ("running", "failed") or self._is_lost(job):
                # nobody runs it any more: we hold the lock
                self.rows[job.id] = replace(known, state="pending")
        self._write()

    def refuse_others(self, plan: Plan) -> None:
        """A job that was done with other settings is another job."""
        for job in plan.jobs:
            known = self.rows.get(job.id)
            if known is not None and known.config_hash != job.config_hash:
                raise UserError(
                    f"{self.directory} holds {job.id} with other settings (config hash "
                    f"{known.config_hash}, not {job.config_hash}); choose another --out."
                )

    def _is_lost(self, job: Job) -> bool:
        """Whether the file that a finished job leaves is gone from its run, or damaged."""
        run = RunDir(self.directory / job.run)
        left = {"train": run.config_file, "evaluate": run.phase_two, "adapt": run.adapted}
        try:
            read_json(left[job.phase])
        except UserError:
            return True
        return False

    def change(self, job: Job, **columns: Any) -> Row:
        """Note what has become of a job; on disk when this returns."""
        self.rows[job.id] = replace(self.rows[job.id], **columns)
        self._write()
        return self.rows[job.id]

    def state(self, job: Job) -> str:
        """Of one job."""
        return self.rows[job.id].state

    def _write(self) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*_COLUMNS, checksums.KEY])
        for row in self.rows.values():
            columns = [str(getattr(row, name)) for name in _COLUMNS]
            writer.writerow([*columns, _checksum(columns)])
        write_bytes(self._file, text.getvalue().encode())


def new_row(job: Job) -> Row:
    """A job that nobody has begun."""
    return Row(
        job=job.id,
        agent=job.agent,
        game=job.game,
        seed=job.seed,
        phase=job.phase,
        state="pending",
        num_steps=job.num_steps,
        config_hash=job.config_hash,
    )


def read(path: Path) -> list[Row]:
    """The rows of a ledger, trusting nothing; none where there is none."""
    if not path.exists():
        return []
    with reading(path):
        text = read_bytes(path, _LARGEST).decode("utf-8")
    try:
        reader = csv.DictReader(io.StringIO(text))
        if missing := set(_COLUMNS) - set(reader.fieldnames or ()):
            raise ValueError(f"it has no column {min(missing)}")
        if strange := set(reader.fieldnames or ()) - {*_COLUMNS, checksums.KEY}:
            raise ValueError(f"it has a column {min(strange)!r}")
        return [_row(values) for values in reader]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise UserError(
            f"{path} is damaged ({error}); restore it, or move its directory away and start anew."
        ) from None


def _checksum(columns: list[str]) -> str:
    return checksums.of_text("\n".join(columns))[:16]


def _row(values: dict[str, str]) -> Row:
    if None in values.values():
        raise ValueError(f"the row of {values['job']} is cut short")
    if checksums.KEY in values and values[checksums.KEY] != _checksum(
        [values[name] for name in _COLUMNS]
    ):
        raise ValueError(f"the row of {values['job']} does not match its checksum")
    row = Row(**{f.name: _KINDS[str(f.type)](values[f.name]) for f in fields(Row)})
    if row.state not in _STATES:
        raise ValueError(f"{row.state!r} is not a state")
    return row


@contextlib.contextmanager
def locked(directory: Path, patience: float = _PATIENCE) -> Iterator[int]:
    """Hold the directory; the descriptor given is to be inherited by jobs, which then hold it too.

    So whoever comes after a killed runner waits until its last job has gone.
    """

    def refusal(holder: str) -> str:
        return (
            f"Another `visr reproduce` is at work in {directory} ({holder}); wait for it, stop it, or "
            "choose another --out."
        )

    with contextlib.ExitStack() as stack:
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
            held = lock.held(directory / "ledger.lock", refusal, patience, keep=True)
            descriptor = stack.enter_context(held)
        yield descriptor
