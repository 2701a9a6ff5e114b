"""How long a plan will take: from what its ledger has seen, else from a short measurement."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from dataclasses import dataclass

from visr import config as configuration
from visr.reproduce.ledger import Ledger
from visr.reproduce.plan import Job, Plan
from visr.reproduce.runner import start

_BUDGET = 45.0
"""Seconds for all measurements together; agents that are not reached are taken to be like the others."""
_LIMIT = 180.0
"""Seconds for one of them: a hundred Atari games take a while to begin."""


@dataclass(frozen=True)
class Estimate:
    """Of what is left to do."""

    seconds: dict[str, float]
    """By agent, for one core."""
    sources: dict[str, str]
    """By agent: where the speed comes from."""

    def total(self, num_jobs: int) -> float | None:
        """With so many jobs at a time, each on a core of its own; None where no speed is known."""
        return sum(self.seconds.values()) / num_jobs if self.seconds or not self.sources else None


def estimate(plan: Plan, ledger: Ledger) -> Estimate:
    """Steps left divided by steps per second, agent by agent."""
    left = [job for job in plan.jobs if _state(ledger, job) != "done"]
    deadline, rates, sources = time.monotonic() + _BUDGET, {}, {}
    first: dict[str, Job] = {}
    for job in left:
        first.setdefault(job.agent, job)
    for job in first.values():
        if rate := _recorded(plan, ledger, job.agent):
            rates[job.agent], sources[job.agent] = rate, "recorded"
        elif time.monotonic() < deadline and (rate := _measured(job)):
            rates[job.agent], sources[job.agent] = rate, f"measured on {job.game}"
    if not rates:
        return Estimate({}, {job.agent: "could not be measured" for job in left})
    usual = sorted(rates.values())[len(rates) // 2]
    seconds: dict[str, float] = {}
    for job in left:
        rate = rates.get(job.agent, usual)
        sources.setdefault(job.agent, "taken from the others")
        seconds[job.agent] = seconds.get(job.agent, 0.0) + job.num_steps / rate
    return Estimate(seconds, sources)


def _state(ledger: Ledger, job: Job) -> str:
    row = ledger.rows.get(job.id)
    return row.state if row else "pending"


def _recorded(plan: Plan, ledger: Ledger, agent: str) -> float | None:
    """Steps per second of the agent's trainings that are done."""
    trainings = [job.id for job in plan.jobs if job.agent == agent and job.phase == "train"]
    rows = [ledger.rows[id] for id in trainings if id in ledger.rows]
    done = [row for row in rows if row.state == "done" and row.seconds > 0]
    spent = sum(row.seconds for row in done)
    return sum(row.num_steps for row in done) / spent if spent else None


def _measured(job: Job) -> float | None:
    """Steps per second of a training begun for the purpose and thrown away."""
    told = {"phase": "probe", "config": configuration.to_dict(job.config)}
    process = start(told, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    overdue = threading.Timer(_LIMIT, process.kill)
    overdue.start()
    with process.stdout as answer:
        said = answer.read()
    process.stdin.close()
    code = process.wait()
    overdue.cancel()
    return float(json.loads(said)["steps_per_second"]) if code == 0 else None
