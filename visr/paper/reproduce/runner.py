"""Does a plan: as many jobs at a time as wished, each in its own process, each noted in the ledger."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from visr import config as configuration
from visr.errors import UserError
from visr.paper.reproduce.ledger import Ledger, Row
from visr.paper.reproduce.plan import Job, Plan
from visr.storage import safe_open
from visr.storage.files import writing
from visr.storage.run_dir import RunDir

JOB_FORMAT = 1
"""Of a run's job.json."""
_PAUSE = 0.1
_FAREWELL = 60.0
"""Seconds for jobs to save their work when the runner is asked to stop."""


@dataclass
class Attempt:
    """A job that is being done."""

    job: Job
    process: subprocess.Popen[bytes]
    log: Path
    began: float = field(default_factory=time.monotonic)


Observer = Callable[[list[Attempt], Row | None], None]
"""Told again and again what is being done, and of each job that has ended."""


class Runner:
    """Runs what is pending until nothing is; whatever fails does not stop the rest."""

    def __init__(self, plan: Plan, ledger: Ledger, lock: int, num_jobs: int) -> None:
        self._plan, self._ledger, self._lock, self._num_jobs = plan, ledger, lock, num_jobs
        self._attempts: list[Attempt] = []

    def run(self, observe: Observer) -> None:
        """Until every job is done or has failed; an exception stops jobs as Ctrl-C would."""
        try:
            while self._begin_more() or self._attempts:
                time.sleep(_PAUSE)
                ended = [a for a in self._attempts if a.process.poll() is not None]
                for attempt in ended:
                    self._attempts.remove(attempt)
                    observe(self._attempts, self._note(attempt))
                observe(self._attempts, None)
        finally:
            self._stop()

    def _begin_more(self) -> bool:
        """Start jobs while there are hands for them; False once nothing can be started or is at work."""
        while len(self._attempts) < self._num_jobs and (job := self._next()):
            row = self._ledger.rows[job.id]
            self._ledger.change(
                job,
                state="running",
                attempts=row.attempts + 1,
                started=round(time.time(), 1),
                error="",
            )
            self._attempts.append(self._begin(job))
        return bool(self._attempts)

    def _next(self) -> Job | None:
        """The first job that is pending and needs nothing that is not done."""
        for job in self._plan.jobs:
            ready = job.phase == "train" or self._trained(job)
            if self._ledger.state(job) == "pending" and ready:
                return job
        return None

    def _trained(self, job: Job) -> bool:
        row = self._ledger.rows.get(job.id.removesuffix(job.phase) + "train")
        return row is not None and row.state == "done"

    def _begin(self, job: Job) -> Attempt:
        out = self._ledger.directory
        log = out / "logs" / f"{job.id.replace('/', '.')}.log"
        with writing(log):
            log.parent.mkdir(parents=True, exist_ok=True)
            descriptor = safe_open.to_write(log, os.O_WRONLY | os.O_TRUNC)
            errors = open(descriptor, "wb")  # noqa: SIM115 - the process keeps it
        process = start(order(job, out), stderr=errors, pass_fds=(self._lock,))
        errors.close()
        return Attempt(job, process, log)

    def _note(self, attempt: Attempt) -> Row:
        """Write down how an attempt ended; a job that was stopped is pending again."""
        _let_go(attempt.process)
        code, row = attempt.process.returncode, self._ledger.rows[attempt.job.id]
        seconds = round(row.seconds + time.monotonic() - attempt.began, 1)
        state, error = "done", ""
        if code == 128 + signal.SIGTERM:
            state = "pending"
        elif code != 0:
            state, error = "failed", _last_words(attempt.log, code)
        elif attempt.log.exists() and not attempt.log.stat().st_size:
            attempt.log.unlink()
        return self._ledger.change(
            attempt.job, state=state, seconds=seconds, ended=round(time.time(), 1), error=error
        )

    def _stop(self) -> None:
        """Ask what still runs to save its work, wait, and note how far it came."""
        for attempt in self._attempts:
            attempt.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _FAREWELL
        for attempt in self._attempts:
            try:
                attempt.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                attempt.process.kill()
                attempt.process.wait()
            _let_go(attempt.process)
            seconds = self._ledger.rows[attempt.job.id].seconds + time.monotonic() - attempt.began
            self._ledger.change(attempt.job, state="pending", seconds=round(seconds, 1))


def order(job: Job, out: Path) -> dict[str, Any]:
    """What to tell the process of a job."""
    return {
        "phase": job.phase,
        "run": str(out / job.run),
        "config": configuration.to_dict(job.config),
        "counts": vars(job.counts),
        "ways": job.ways,
        "job": {
            "format": JOB_FORMAT,
            "suite": job.suite,
            "agent": job.agent,
            "game": job.game,
            "seed": job.seed,
            "config_hash": job.config_hash,
        },
    }


def start(
    told: dict[str, Any],
    *,
    stdout: int = subprocess.DEVNULL,
    stderr: IO[bytes] | int = subprocess.DEVNULL,
    pass_fds: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """A process that does as it is told; its input stays open for as long as it may live."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "visr.paper.reproduce.jobs"],
        stdin=subprocess.PIPE,
        env=environment,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        start_new_session=True,  # Ctrl-C is for the runner, who passes it on
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it ended at once; its exit code says so
        process.stdin.write(json.dumps(told).encode() + b"\n")
        process.stdin.flush()
    return process


def _let_go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def steps_done(out: Path, job: Job) -> int:
    """How far a training has come, by its own metrics."""
    try:
        run = RunDir(out / job.run)
        return int(run.last_row(run.metrics).get("num_steps", 0))
    except (UserError, OSError):  # it is being written at this moment
        return 0


def _last_words(log: Path, code: int) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return " ".join((lines or [f"it ended with code {code} and no word"])[-1].split())[:500]
