"""How long a plan will take: from what its ledger has seen, else from a short measurement."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from dataclasses import dataclass

from visr import config as configuration
from visr.paper.reproduce.ledger import Ledger
from visr.paper.reproduce.plan import Job, Plan
from visr.paper.reproduce.runner import start

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


@dataclass(frozen=True)
class _Kind:
    """What has a speed of its own."""

    agent: str
    algorithm: str
    changes_weights: bool
    """With rewards, after the pre-training."""

    def is_like(self, other: _Kind) -> bool:
        """Whether one's speed is a fair guess at the other's."""
        return (self.algorithm, self.changes_weights) == (other.algorithm, other.changes_weights)


def _kind(job: Job) -> _Kind:
    return _Kind(job.agent, job.config.agent.algorithm, job.phase == "adapt")


def estimate(plan: Plan, ledger: Ledger) -> Estimate:
    """Steps left divided by steps per second, agent by agent."""
    left = [job for job in plan.jobs if _state(ledger, job) != "done"]
    deadline = time.monotonic() + _BUDGET
    rates: dict[_Kind, float] = {}
    sources: dict[str, str] = {}
    for kind, job in _by_novelty(left):
        if rate := _recorded(plan, ledger, kind):
            rates[kind], source = rate, "recorded"
        elif time.monotonic() < deadline and (rate := _measured(job)):
            rates[kind], source = rate, f"measured on {job.game}"
        else:
            source = "taken from the others"
        sources.setdefault(job.agent, source)
    if not rates:
        return Estimate({}, {job.agent: "could not be measured" for job in left})
    seconds: dict[str, float] = {}
    for job in left:
        rate = rates.get(_kind(job)) or _usual(rates, _kind(job))
        seconds[job.agent] = seconds.get(job.agent, 0.0) + job.num_steps / rate
    return Estimate(seconds, {job.agent: sources[job.agent] for job in left})


def _by_novelty(jobs: list[Job]) -> list[tuple[_Kind, Job]]:
    """A job of every kind; those that no earlier one is like come first, as time may not suffice for all."""
    first: dict[_Kind, Job] = {}
    for job in jobs:
        first.setdefault(_kind(job), job)
    kinds = list(first)
    new = [kind for place, kind in enumerate(kinds) if not any(map(kind.is_like, kinds[:place]))]
    return [(kind, first[kind]) for kind in dict.fromkeys([*new, *kinds])]


def _usual(rates: dict[_Kind, float], kind: _Kind) -> float:
    """The median of those that are like it, or of all."""
    alike = [rate for other, rate in rates.items() if other.is_like(kind)] or list(rates.values())
    return sorted(alike)[len(alike) // 2]


def _state(ledger: Ledger, job: Job) -> str:
    row = ledger.rows.get(job.id)
    return row.state if row else "pending"


def _recorded(plan: Plan, ledger: Ledger, kind: _Kind) -> float | None:
    """Steps per second of the agent's trainings, or adaptations, that are done."""
    alike = [job.id for job in plan.jobs if _kind(job) == kind and job.phase != "evaluate"]
    rows = [ledger.rows[id] for id in alike if id in ledger.rows]
    done = [row for row in rows if row.state == "done" and row.seconds > 0]
    spent = sum(row.seconds for row in done)
    return sum(row.num_steps for row in done) / spent if spent else None


def _measured(job: Job) -> float | None:
    """Steps per second of a training begun for the purpose and thrown away."""
    told = {
        "phase": "probe",
        "config": configuration.to_dict(job.config),
        "ways": job.ways,
        "counts": vars(job.counts),
    }
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
