"""Run the jobs of a plan, on this machine or on a Ray cluster, and record each in the ledger."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from visr import config as configuration
from visr import working_directory
from visr.errors import UserError
from visr.paper.reproduce.ledger import Ledger, Row
from visr.paper.reproduce.plan import Job, Phase, Plan
from visr.storage import new_files
from visr.storage.files import writing
from visr.storage.run_dir import RunDir

JOB_FORMAT = 1
"""Format of a run's job.json."""
_JOB_FIELDS = ("suite", "agent", "game", "seed", "config_hash")
_POLL_SECONDS = 0.1
_STOP_SECONDS = 60.0
"""Time for jobs to save their work when the runner is asked to stop."""


@dataclass
class Attempt:
    """A running job."""

    job: Job
    process: subprocess.Popen[bytes]
    log: Path
    started: float = field(default_factory=time.monotonic)


Observer = Callable[[list[Attempt], Row | None], None]
"""Called again and again with the running jobs, and with the row of each job that has ended."""


class Runner:
    """Runs each job in a process of its own on this machine; a job that fails does not stop the others."""

    def __init__(self, plan: Plan, ledger: Ledger, lock: int, num_jobs: int) -> None:
        self._plan, self._ledger, self._lock, self._num_jobs = plan, ledger, lock, num_jobs
        self._attempts: list[Attempt] = []

    def run(self, observe: Observer) -> None:
        """Run until every job is done or has failed; on any exception, stop the running jobs."""
        try:
            while self._start_more() or self._attempts:
                time.sleep(_POLL_SECONDS)
                ended = [a for a in self._attempts if a.process.poll() is not None]
                for attempt in ended:
                    self._attempts.remove(attempt)
                    observe(self._attempts, self._record_end(attempt))
                observe(self._attempts, None)
        finally:
            self._stop()

    def _start_more(self) -> bool:
        """Start jobs until enough run; False if none runs."""
        while len(self._attempts) < self._num_jobs and (job := self._next()):
            self._ledger.start(job)
            self._attempts.append(self._start(job))
        return bool(self._attempts)

    def _next(self) -> Job | None:
        return next((job for job in self._plan.jobs if self._ledger.is_ready(job)), None)

    def _start(self, job: Job) -> Attempt:
        out = self._ledger.directory
        log = out / "logs" / f"{job.id.replace('/', '.')}.log"
        with writing(log):
            errors = new_files.create(log)
        try:
            process = _start_process(instructions(job, out), errors, self._lock)
        finally:
            os.close(errors)
        return Attempt(job, process, log)

    def _record_end(self, attempt: Attempt) -> Row:
        """Write the result of an ended attempt; a job that was stopped is pending again."""
        code = attempt.process.returncode
        state, error = "done", ""
        if code == 128 + signal.SIGTERM:
            state = "pending"
        elif code != 0:
            state, error = "failed", _last_line(attempt.log, code)
        elif attempt.log.exists() and not attempt.log.stat().st_size:
            new_files.remove(attempt.log)
        return self._record(attempt, state, error)

    def _record(self, attempt: Attempt, state: str, error: str = "") -> Row:
        _close_input(attempt.process)
        return self._ledger.end(attempt.job, state, time.monotonic() - attempt.started, error)

    def _stop(self) -> None:
        """Ask running jobs to save their work, wait for them, and record them as pending."""
        for attempt in self._attempts:
            attempt.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for attempt in self._attempts:
            try:
                attempt.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                attempt.process.kill()
                attempt.process.wait()
            self._record(attempt, "pending")


def run_on_ray(
    plan: Plan, ledger: Ledger, where: str, num_jobs: int, note: Callable[[Row], None]
) -> None:
    """Run each job as a Ray task, one phase after another; a job that fails does not stop the others.

    Nodes must share the file system of the plan's directory. A job whose node is lost runs again on another
    node and resumes from its checkpoint.
    """
    from visr.cluster import session
    from visr.paper.reproduce import phases

    out = Path(ledger.directory).resolve()
    with session.joined(where, session.Needs(num_cpus=num_jobs)):
        for phase in get_args(Phase):
            ready = [job for job in plan.jobs if job.phase == phase and ledger.is_ready(job)]
            for job in ready:
                ledger.start(job)
            started, left = time.monotonic(), {str(out / job.run): job for job in ready}
            try:
                for outcome in session.run_all(
                    [instructions(job, out) for job in ready], phases.run
                ):
                    state = "failed" if outcome.error else "done"
                    seconds = time.monotonic() - started  # includes waiting for a free CPU
                    job = left.pop(outcome.job["run"])
                    note(ledger.end(job, state, seconds, outcome.error[:500]))
            finally:
                for job in left.values():
                    ledger.change(job, state="pending")


def instructions(job: Job, out: Path) -> dict[str, Any]:
    """The JSON-able arguments of `phases.run`."""
    return {
        "phase": job.phase,
        "plan": str(out),
        "run": str(out / job.run),
        "config": configuration.to_dict(job.config),
        "counts": vars(job.counts),
        "ways": job.ways,
        "job": {"format": JOB_FORMAT, **{name: getattr(job, name) for name in _JOB_FIELDS}},
    }


def _start_process(arguments: dict[str, Any], stderr: int, lock: int) -> subprocess.Popen[bytes]:
    """A process that runs one job; it exits when its input is closed."""
    process = subprocess.Popen(
        working_directory.child_command("visr.paper.reproduce.phases"),
        stdin=subprocess.PIPE,
        env=working_directory.child_environment(),
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=(lock,),
        start_new_session=True,  # Ctrl-C reaches the runner only, which then stops the jobs
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it exited at once; its exit code says why
        process.stdin.write(json.dumps(arguments).encode() + b"\n")
        process.stdin.flush()
    return process


def _close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def steps_done(out: Path, job: Job) -> int:
    """Steps that a training has done so far, from its metrics.csv."""
    try:
        run = RunDir(out / job.run)
        return int(run.last_row(run.metrics).get("num_steps", 0))
    except (UserError, OSError):  # the file is being written at this moment
        return 0


def _last_line(log: Path, code: int) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return " ".join((lines or [f"it exited with code {code} and no message"])[-1].split())[:500]
