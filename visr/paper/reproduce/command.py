"""visr reproduce: the paper's experiments, at any scale."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated

import tyro

from visr import terminal
from visr.commands import options, output
from visr.errors import UserError
from visr.optional_packages import needing
from visr.paper.reproduce import plan
from visr.paper.reproduce.agents import Way
from visr.paper.reproduce.ledger import Ledger, Row, locked, new_row
from visr.paper.reproduce.runner import Attempt, Observer, Runner, run_on_ray, steps_done

_MOST_FREE_STEPS = 5_000_000
"""More do not fit into memory."""
_INTERVAL = 1.0
"""Seconds between readings of the jobs' files."""


@dataclass(frozen=True)
class Options:
    """Train and evaluate every agent in every game with several seeds.

    The ledger in the plan's directory records which jobs are done, so the same command continues a plan
    that was stopped. Agents: visr, visr-no-gpi, rf-visr, rf-visr-no-gpi, diayn-K, diayn-K-log-q, nsq-STEPS,
    pos-nsq, rf-curiosity, idf-curiosity, uniform, dqn-STEPS, ppo-STEPS, rainbow-STEPS, der-STEPS
    (data-efficient Rainbow), simple-STEPS; K is a number of skills, STEPS a number such as 100k or 10m.
    Beyond the paper: visr-visited, visr-rnd, visr-particles, visr-laplacian, visr-metra, visr-dD (D
    features), visr-plus (visited, rnd and a weighted loss together), visr-plus-dD.
    """

    suite: Annotated[plan.SuiteName, tyro.conf.Positional, tyro.conf.arg(metavar="SUITE")]
    """grid, minatar or atari: the paper's experiments there; beyond: our additions, on MinAtar."""
    out: str | None = None
    """Directory of the plan, its ledger and its runs (default: runs/reproduce-SUITE)."""
    paper: bool = False
    """Atari only: the paper's full plan, 57 games with 250M steps and 3 seeds; needs a cluster of GPUs."""
    only: tuple[str, ...] = ()
    """Agents (default: all of the suite)."""
    games: tuple[str, ...] = ()
    """Games by id or bare name, such as breakout (default: all of the suite)."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """One run each."""
    num_steps: int | None = None
    """Reward-free steps of each run (default: the preset's). Agents with STEPS in their name keep theirs."""
    rewarded_steps: int = plan.Counts.rewarded_steps
    """Steps with rewards in the second phase."""
    free_steps: int = plan.Counts.free_steps
    """Plan beyond: reward-free steps after pre-training that the way `relabelled` learns from."""
    ways: tuple[Way, ...] = ()
    """Plan beyond: only these uses of the rewarded steps."""
    trials: int = plan.Counts.trials
    """Episodes that score each policy."""
    draws: int = plan.Counts.draws
    """Independent draws of the rewarded phase of each run; its scores are means over them."""
    jobs: int = 1
    """Processes at a time, each on one core."""
    cluster: str | None = None
    """Run the jobs as Ray tasks: local, auto, or ray://HOST:PORT; nodes share the directory."""
    dry_run: bool = False
    """Print the plan, and the time left if the ledger has speeds, and run nothing."""
    json: options.Json = False


def run(args: list[str]) -> int:
    """Run the plan, or show it."""
    chosen = options.parse(Options, args, "reproduce")
    # An empty list may come from an unset variable and should not select everything.
    for name in ("only", "games", "ways"):
        if f"--{name}" in args and not getattr(chosen, name):
            raise UserError(f"--{name} names nothing; name at least one, or leave it out.")
    wanted = _plan(chosen)
    out = Path(chosen.out or f"runs/reproduce-{chosen.suite}{'-paper' if chosen.paper else ''}")
    if chosen.dry_run:
        ledger = Ledger(out)
        ledger.check_settings(wanted)
        _show_plan(wanted, ledger, chosen)
        return 0
    if chosen.cluster is not None:
        with needing("ray", "cluster"):
            from visr.cluster import session
        session.check(chosen.cluster)
    Ledger(out)  # refuse a damaged ledger before anything is written
    with locked(out) as lock, _sigterm_as_keyboard_interrupt():
        ledger = Ledger(out)
        ledger.add(wanted)
        try:
            with _progress(wanted, ledger) as observe:
                if chosen.cluster is None:
                    Runner(wanted, ledger, lock, chosen.jobs).run(observe)
                else:
                    run_on_ray(
                        wanted, ledger, chosen.cluster, chosen.jobs, lambda row: observe([], row)
                    )
        except KeyboardInterrupt as stop:
            number = next(iter(stop.args), signal.SIGINT)
            done = sum(ledger.state(job) == "done" for job in wanted.jobs)
            output.say(
                f"visr: Stopped; {done} of {len(wanted.jobs)} jobs are done. The same command continues."
            )
            return 128 + int(number)
    return _show_result(wanted, ledger, chosen)


def _plan(chosen: Options) -> plan.Plan:
    options.check_range(chosen, ("rewarded_steps", "trials", "draws", "jobs"), 1)
    options.check_range(chosen, ("free_steps",), 1, _MOST_FREE_STEPS)
    if chosen.suite != "beyond":
        options.refuse(chosen, ("free_steps",), "is for the plan beyond")
    return plan.make(
        chosen.suite,
        paper=chosen.paper,
        only=chosen.only,
        chosen_games=chosen.games,
        seeds=chosen.seeds,
        num_steps=chosen.num_steps,
        ways=chosen.ways,
        counts=plan.Counts(
            rewarded_steps=chosen.rewarded_steps,
            trials=chosen.trials,
            free_steps=chosen.free_steps,
            draws=chosen.draws,
        ),
    )


@contextlib.contextmanager
def _sigterm_as_keyboard_interrupt() -> Iterator[None]:
    """SIGTERM stops the plan as Ctrl-C does: jobs save their work and the ledger records it."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextlib.contextmanager
def _progress(wanted: plan.Plan, ledger: Ledger) -> Iterator[Observer]:
    """An observer for the runner that shows which jobs start, run and end."""
    if not sys.stderr.isatty():
        yield _print_ended
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2) as bars:
        whole = bars.add_task(
            "[bold]plan", total=sum(job.num_steps for job in wanted.jobs), note=""
        )
        lines: dict[str, TaskID] = {}
        last_update = 0.0

        def observe(attempts: list[Attempt], ended: Row | None) -> None:
            nonlocal last_update
            if ended is None and time.monotonic() - last_update < _INTERVAL:
                return
            last_update = time.monotonic()
            done = [job for job in wanted.jobs if ledger.state(job) == "done"]
            steps = sum(job.num_steps for job in done)
            for id in set(lines) - {attempt.job.id for attempt in attempts}:
                bars.remove_task(lines.pop(id))
            for job in (attempt.job for attempt in attempts):
                completed = steps_done(ledger.directory, job) if job.phase == "train" else 0
                steps += completed
                if job.id not in lines:
                    lines[job.id] = bars.add_task(job.id, total=job.num_steps, note="")
                bars.update(lines[job.id], completed=completed)
            bars.update(whole, completed=steps, note=f"{len(done)} of {len(wanted.jobs)} jobs")

        yield observe


def _print_ended(_attempts: list[Attempt], ended: Row | None) -> None:
    if ended is not None:
        output.say(f"{ended.job}: {ended.state} after {ended.seconds:,.0f} s")


def _show_plan(wanted: plan.Plan, ledger: Ledger, chosen: Options) -> None:
    seconds = ledger.seconds_left(wanted)
    known = {agent: left for agent, left in seconds.items() if left is not None}
    total = sum(known.values()) / chosen.jobs if len(known) == len(seconds) else None
    jobs = [vars(ledger.rows.get(job.id, new_row(job))) for job in wanted.jobs]
    columns = ("job", "agent", "game", "seed", "phase", "num_steps", "config_hash", "state")
    result = {
        "suite": wanted.suite,
        "out": str(ledger.directory),
        "jobs": [{name: job[name] for name in columns} for job in jobs],
        "seconds_by_agent": known,
        "speed_from": {a: "recorded" if a in known else "not known yet" for a in seconds},
        "seconds": total,
    }
    num_games = len({job.game for job in wanted.jobs})
    seeds = ", ".join(map(str, dict.fromkeys(job.seed for job in wanted.jobs)))
    output.show(
        result,
        chosen.json,
        f"{wanted.suite} in {ledger.directory}: jobs: {len(jobs)}, games: {num_games}, seeds: {seeds}",
        [_plan_row(wanted, agent, ledger, known.get(agent)) for agent in seconds],
        ("agent", "steps a run", "runs", "jobs left", "time on one core"),
        remarks=[f"Time left with --jobs {chosen.jobs}: {_hours(total)}."],
    )


def _plan_row(
    wanted: plan.Plan, agent: str, ledger: Ledger, seconds: float | None
) -> tuple[str, ...]:
    jobs = [job for job in wanted.jobs if job.agent == agent]
    trainings = [job for job in jobs if job.phase == "train"]
    return (
        agent,
        f"{trainings[0].num_steps:,}",
        f"{len(trainings)}",
        f"{sum(ledger.state(job) != 'done' for job in jobs)}",
        _hours(seconds),
    )


def _hours(seconds: float | None) -> str:
    if seconds is None:
        return "not known yet"
    return f"{seconds / 3600:,.2g} h" if seconds < 360_000 else f"{seconds / 3600:,.0f} h"


def _show_result(wanted: plan.Plan, ledger: Ledger, chosen: Options) -> int:
    rows = [ledger.rows[job.id] for job in wanted.jobs]
    counts = Counter(row.state for row in rows)
    failed = [row for row in rows if row.state == "failed"]
    if chosen.json:
        output.emit(
            {
                "out": str(ledger.directory),
                "num_jobs": len(rows),
                "done": counts["done"],
                "failed": {row.job: row.error for row in failed},
                "seconds": sum(row.seconds for row in rows),
            }
        )
    else:
        terminal.show(f"{counts['done']} of {len(rows)} jobs done: {ledger.directory}")
    for row in failed:
        output.say(f"visr: {row.job} failed: {row.error}")
    if counts["done"] == len(rows):
        output.say(f"Next: visr report {ledger.directory}")
        return 0
    output.say("Run the same command again to retry the jobs that are not done.")
    return 1
