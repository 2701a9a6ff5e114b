"""visr reproduce: the paper's experiments, at any scale."""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Annotated

import tyro

from visr.commands import options, output
from visr.commands.plan_progress import progress
from visr.errors import UserError, needing
from visr.paper.reproduce import agents as lineup
from visr.paper.reproduce import estimate, plan
from visr.paper.reproduce.ledger import Ledger, locked
from visr.paper.reproduce.runner import Observer, Runner

_MOST_FREE_STEPS = 5_000_000


@dataclass(frozen=True)
class Options:
    """Train and evaluate every agent in every game, with several seeds; stop it anywhere, start it again.

    The ledger in the plan's directory remembers what is done. Agents: visr, visr-no-gpi, rf-visr,
    rf-visr-no-gpi, diayn-K, diayn-K-log-q, nsq-STEPS, pos-nsq, rf-curiosity, idf-curiosity, uniform,
    dqn-STEPS, ppo-STEPS, rainbow-STEPS, der-STEPS (data-efficient Rainbow); STEPS is such as 100k or 10m.
    Beyond the paper: visr-visited, visr-rnd, visr-particles, visr-forward, visr-inverse, visr-laplacian,
    visr-metra, visr-dD (D features), visr-plus (all together), visr-plus-dD.
    """

    suite: Annotated[plan.Suite, tyro.conf.Positional, tyro.conf.arg(metavar="SUITE")]
    """grid, minatar or atari: the paper's plan in these worlds; beyond: our additions, on MinAtar."""
    out: str | None = None
    """Directory of the plan, its ledger and its runs; by default runs/reproduce-SUITE."""
    paper: bool = False
    """Atari only: the paper's full plan, 57 games with 250M steps and 3 seeds; wants a cluster of GPUs."""
    only: tuple[str, ...] = ()
    """Agents; by default the paper's table."""
    games: tuple[str, ...] = ()
    """Games by id or bare name, such as breakout; by default all of the suite."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """One run each."""
    num_steps: int | None = None
    """Reward-free steps of each run; by default the preset's. Agents named after a budget keep theirs."""
    rewarded_steps: int = plan.Counts.rewarded_steps
    """Steps with rewards in the second phase."""
    free_steps: int = plan.Counts.free_steps
    """Plan beyond: reward-free steps, after pre-training, that the way `relabelled` learns from."""
    ways: tuple[lineup.Way, ...] = ()
    """Plan beyond: of the ways to spend the rewarded steps otherwise than the paper, these alone."""
    trials: int = plan.Counts.trials
    """Episodes that judge each way to act."""
    jobs: int = 1
    """Processes at a time, each on one core."""
    cluster: str | None = None
    """Run the jobs as tasks of Ray instead: local, auto, or ray://HOST:PORT; nodes share the directory."""
    dry_run: bool = False
    """Print the plan and an estimate of its time, and do nothing."""
    json: bool = False
    """Print the result as one JSON object."""


def run(args: list[str]) -> int:
    """Do the plan, or tell what it would be."""
    chosen = options.parse(Options, args, "reproduce")
    # An empty list is such as an unset variable's: hardly a wish for everything.
    for name in ("only", "games", "ways"):
        if f"--{name}" in args and not getattr(chosen, name):
            raise UserError(f"--{name} names nothing; name at least one, or leave it out.")
    wanted = _plan(chosen)
    out = Path(chosen.out or f"runs/reproduce-{chosen.suite}{'-paper' if chosen.paper else ''}")
    if chosen.dry_run:
        Ledger(out).refuse_others(wanted)
        _show_plan(wanted, out, chosen)
        return 0
    if chosen.cluster is not None:
        _ray().check(chosen.cluster)
    Ledger(out)  # a damaged one is refused before anything is touched
    with locked(out) as lock, _stops_like_ctrl_c():
        ledger = Ledger(out)
        ledger.adopt(wanted)
        try:
            with progress(wanted, ledger) as observe:
                if chosen.cluster is None:
                    Runner(wanted, ledger, lock, chosen.jobs).run(observe)
                else:
                    _elsewhere(wanted, ledger, chosen.cluster, chosen.jobs, observe)
        except KeyboardInterrupt as stop:
            number = next(iter(stop.args), signal.SIGINT)
            done = sum(ledger.state(job) == "done" for job in wanted.jobs)
            output.say(
                f"visr: Stopped; {done} of {len(wanted.jobs)} jobs are done. The same command goes on."
            )
            return 128 + int(number)
    return _show_result(wanted, ledger, chosen)


def _ray() -> ModuleType:
    with needing("ray", "cluster"):
        from visr.paper.reproduce import ray_runner
    return ray_runner


def _elsewhere(
    wanted: plan.Plan, ledger: Ledger, where: str, num_jobs: int, observe: Observer
) -> None:
    _ray().run(wanted, ledger, where, num_jobs, lambda row: observe([], row))


def _plan(chosen: Options) -> plan.Plan:
    for name in ("rewarded_steps", "free_steps", "trials", "jobs"):
        if not 1 <= getattr(chosen, name) < 2**31:
            raise UserError(
                f"{name} = {getattr(chosen, name)} must be at least 1 and less than 2^31."
            )
    if chosen.free_steps > _MOST_FREE_STEPS:
        raise UserError(
            f"free_steps = {chosen.free_steps:,} is more than memory holds; give at most "
            f"{_MOST_FREE_STEPS:,}."
        )
    if chosen.suite != "beyond" and chosen.free_steps != plan.Counts.free_steps:
        raise UserError(
            f"free_steps = {chosen.free_steps:,} is for the plan beyond; the plan {chosen.suite} has none."
        )
    default = plan.counts_of(chosen.suite)
    return plan.make(
        chosen.suite,
        paper=chosen.paper,
        only=chosen.only,
        chosen_games=chosen.games,
        seeds=chosen.seeds,
        num_steps=chosen.num_steps,
        ways=chosen.ways,
        counts=plan.Counts(
            chosen.rewarded_steps, default.rewarded_episodes, chosen.trials, chosen.free_steps
        ),
    )


@contextlib.contextmanager
def _stops_like_ctrl_c() -> Iterator[None]:
    """SIGTERM, a scheduler's way to ask, ends the plan as Ctrl-C does: jobs save, the ledger knows."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _show_plan(wanted: plan.Plan, out: Path, chosen: Options) -> None:
    ledger = Ledger(out)
    guess = estimate.estimate(wanted, ledger)
    states = {job.id: ledger.rows[job.id].state for job in wanted.jobs if job.id in ledger.rows}
    agents = list(dict.fromkeys(job.agent for job in wanted.jobs))
    if chosen.json:
        output.emit(
            {
                "suite": wanted.suite,
                "out": str(out),
                "jobs": [
                    {
                        "job": job.id,
                        "agent": job.agent,
                        "game": job.game,
                        "seed": job.seed,
                        "phase": job.phase,
                        "num_steps": job.num_steps,
                        "config_hash": job.config_hash,
                        "state": states.get(job.id, "pending"),
                    }
                    for job in wanted.jobs
                ],
                "seconds_by_agent": guess.seconds,
                "speed_from": guess.sources,
                "seconds": guess.total(chosen.jobs),
            }
        )
        return
    rows = [_plan_row(wanted, agent, states, guess) for agent in agents]
    output.table(
        f"{wanted.suite}: {_counted(wanted.jobs, 'job')}, {_counted({j.game for j in wanted.jobs}, 'game')}, "
        f"seeds {', '.join(map(str, dict.fromkeys(j.seed for j in wanted.jobs)))}, in {out}",
        rows,
        header=("agent", "steps a run", "runs", "jobs left", "time on one core", "speed"),
    )
    total = guess.total(chosen.jobs)
    if total is not None:
        print(f"about {duration(total)} with --jobs {chosen.jobs}")


def _counted(things: Collection[object], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"


def _plan_row(
    wanted: plan.Plan, agent: str, states: dict[str, str], guess: estimate.Estimate
) -> tuple[str, ...]:
    mine = [job for job in wanted.jobs if job.agent == agent]
    trainings = [job for job in mine if job.phase == "train"]
    return (
        agent,
        f"{trainings[0].num_steps:,}",
        f"{len(trainings)}",
        f"{sum(states.get(job.id) != 'done' for job in mine)}",
        duration(guess.seconds[agent]) if agent in guess.seconds else "-",
        guess.sources.get(agent, "-"),
    )


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
        print(f"{counts['done']} of {len(rows)} jobs done: {ledger.directory}")
    for row in failed:
        output.say(f"visr: {row.job} failed: {row.error}")
    if counts["done"] == len(rows):
        output.say(f"Next: visr report {ledger.directory}")
        return 0
    output.say("Start the same command again to try once more what is not done.")
    return 1


def duration(seconds: float) -> str:
    """In words that fit: 40 s, 12 min, 3.4 h, 5.1 days."""
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}" if unit != "h" else f"{seconds / size:.1f} {unit}"
    return f"{seconds / 86_400:,.1f} days"
