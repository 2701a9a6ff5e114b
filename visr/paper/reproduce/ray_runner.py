"""Run a plan on a Ray cluster: every job is a Ray task, each recorded in the ledger.

Nodes must share the file system of the plan's directory. A job whose node is lost runs again on another
node and resumes from its checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from visr.cluster import jobs as tasks
from visr.cluster import session
from visr.paper.reproduce import jobs
from visr.paper.reproduce.ledger import Ledger, Row
from visr.paper.reproduce.plan import Job, Phase, Plan
from visr.paper.reproduce.runner import instructions


def run(plan: Plan, ledger: Ledger, where: str, num_jobs: int, note: Callable[[Row], None]) -> None:
    """Run the phases one after another; a job that fails does not stop the others."""
    with session.joined(where, session.Needs(num_cpus=num_jobs)):
        for phase in get_args(Phase):
            ready = [job for job in plan.jobs if job.phase == phase and ledger.is_ready(job)]
            _run_all(ready, ledger, note)


def check(where: str) -> None:
    """Refuse an address that cannot be a cluster, before the plan's directory is touched."""
    session.check(where)


def _run_all(ready: list[Job], ledger: Ledger, note: Callable[[Row], None]) -> None:
    out = Path(ledger.directory).resolve()
    for job in ready:
        ledger.change(job, state="running", attempts=ledger.rows[job.id].attempts + 1, error="")
    started, left = time.monotonic(), {str(out / job.run): job for job in ready}
    try:
        for outcome in tasks.run_all([instructions(job, out) for job in ready], jobs.run):
            job = left.pop(outcome.job["run"])
            state = "failed" if outcome.error else "done"
            seconds = round(time.monotonic() - started, 1)  # includes waiting for a free CPU
            note(ledger.change(job, state=state, seconds=seconds, error=outcome.error[:500]))
    finally:
        for job in left.values():
            ledger.change(job, state="pending")
