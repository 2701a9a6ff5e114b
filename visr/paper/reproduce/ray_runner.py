"""Does a plan on a Ray cluster: every job a task wherever there is room, each noted in the ledger.

Nodes must share the file system that holds the plan's directory. A job whose node is lost runs again
elsewhere and goes on from its checkpoint.
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
from visr.paper.reproduce.runner import order


def run(plan: Plan, ledger: Ledger, where: str, num_jobs: int, note: Callable[[Row], None]) -> None:
    """Train all that is pending, then judge all that is trained; whatever fails does not stop the rest."""
    with session.joined(where, session.Needs(num_cpus=num_jobs)):
        for phase in get_args(Phase):
            ready = [job for job in plan.jobs if job.phase == phase and _is_ready(job, ledger)]
            _run_all(ready, ledger, note)


def check(where: str) -> None:
    """Refuse what can be no cluster, before a plan's directory is touched."""
    session.check(where)


def _is_ready(job: Job, ledger: Ledger) -> bool:
    trained = ledger.rows.get(job.id.removesuffix(job.phase) + "train")
    can_begin = job.phase == "train" or (trained is not None and trained.state == "done")
    return ledger.state(job) == "pending" and can_begin


def _run_all(ready: list[Job], ledger: Ledger, note: Callable[[Row], None]) -> None:
    place = Path(ledger.directory).resolve()
    by_run = {str(place / job.run): job for job in ready}
    for job in ready:
        ledger.change(job, state="running", attempts=ledger.rows[job.id].attempts + 1, error="")
    began, left = time.monotonic(), dict(by_run)
    try:
        for outcome in tasks.run_all([order(job, place) for job in ready], jobs.carry_out):
            job = left.pop(outcome.job["run"])
            state = "failed" if outcome.error else "done"
            seconds = round(time.monotonic() - began, 1)  # waiting for room included
            note(ledger.change(job, state=state, seconds=seconds, error=outcome.error[:500]))
    finally:
        for job in left.values():
            ledger.change(job, state="pending")
