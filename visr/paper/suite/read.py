"""Every run below a directory, each read by itself: what is damaged is told in words and left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visr.config import GRID
from visr.errors import UserError
from visr.report import read as load
from visr.report import style
from visr.report.read import Columns
from visr.storage import safe_open
from visr.storage.files import read_json, reading
from visr.storage.records.two_phase import AdaptedCondition, TwoPhase
from visr.storage.run_dir import FORMAT, RunDir

UNIFORM = "uniform"
_TAIL = 4096  # bytes that hold the last row of any of our CSV files


@dataclass(frozen=True, eq=False)
class Run:
    """What a collection tells of one run."""

    name: str
    """Its path below the collection."""
    path: Path
    agent: str
    """As `visr reproduce` names it: visr, rf-visr-no-gpi, diayn-5, nsq-10m ..."""
    env: str
    seed: int
    num_steps: int
    """Asked for."""
    age: int
    """Reached."""
    frame_skip: int
    phase_two: TwoPhase | None
    adapted: tuple[AdaptedCondition, ...]
    """Other ways than the paper's to spend the rewarded steps."""
    online: Columns
    evaluation: Columns
    """Exact fractions of optimal, on grid worlds."""
    is_finetuned: bool = False
    """Tables are of pre-trained agents; what they make of rewarded steps in plans is `adapted`."""

    @property
    def is_finished(self) -> bool:
        """Whether training reached the steps it was asked for."""
        return self.age >= self.num_steps

    @property
    def has_score(self) -> bool:
        """Whether a table can take it: finished, and judged in the end."""
        if self.is_finetuned or not self.is_finished:
            return False
        if self.env == GRID:
            return bool(self.evaluation)
        return self.phase_two is not None and self.phase_two.num_steps >= self.num_steps

    @property
    def state(self) -> str:
        """In words."""
        if self.is_finetuned:
            return "fine-tuned on one reward, so it is no line of these tables"
        if not self.is_finished:
            return f"stopped at {self.age:,} of {self.num_steps:,} steps; its score is left out"
        if self.has_score:
            return "finished"
        if self.phase_two is None:
            return "trained, but its score was never taken (`visr evaluate` takes it)"
        age = self.phase_two.num_steps
        return f"its score is of step {age:,}, and it trained on; left out (`visr evaluate`)"


@dataclass(frozen=True)
class Trouble:
    """A run that cannot be told of, and why."""

    name: str
    sentence: str


def read(root: Path) -> tuple[list[Run], list[Trouble]]:
    """All runs below `root`, by name; and those that are damaged."""
    runs: list[Run] = []
    troubles: list[Trouble] = []
    for path in find(root):
        name = path.relative_to(root).as_posix()
        try:
            runs.append(_run(path, name))
        except UserError as error:
            troubles.append(Trouble(name, str(error).replace(f"{path}{os.sep}", "")))
    return runs, troubles


def find(root: Path) -> Iterator[Path]:
    """Directories that hold a config.json, in the order of their names; nothing is sought inside a run."""
    config, report = RunDir(root).config_file.name, RunDir(root).report.name
    with reading(root):
        for place, folders, files in os.walk(root):
            if config in files:
                folders.clear()
                yield Path(place)
            folders[:] = sorted(set(folders) - {report})


def _run(path: Path, name: str) -> Run:
    run = RunDir(path)
    config = _config(run.config_file)
    try:
        env, training, agent = config["env"], config["training"], config["agent"]
        seed, num_steps = int(training["seed"]), int(training["num_steps"])
        frame_skip = int(config.get("atari", {}).get("frame_skip", 1))
        label = _agent(run.job, env, seed) or named_by(agent, num_steps)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise UserError(f"{run.config_file} is not a run's configuration ({error}).") from None
    is_grid = env == GRID
    phase = None if is_grid else load.two_phase(run, env)
    evaluation = load.columns(run.evaluation) if is_grid else {}
    ages = [_age(run.metrics), phase.num_steps if phase else 0]
    ages += [int(evaluation["num_steps"][-1])] if evaluation else []
    return Run(
        name=name,
        path=path,
        agent=label,
        env=env,
        seed=seed,
        num_steps=0 if label == UNIFORM else num_steps,  # which learns nothing
        age=max(ages),
        frame_skip=frame_skip,
        phase_two=phase,
        adapted=() if is_grid else load.adapted(run, env),
        online={} if is_grid else load.online(run.online),
        evaluation=evaluation,
        is_finetuned=run.is_finetuned,
    )


def _config(path: Path) -> dict[str, Any]:
    """The bare configuration: of which only a few fields matter here, so other versions' runs pass too."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{path} is not a run's configuration in format {FORMAT}.")
    if not isinstance(content.get("config"), dict) or not isinstance(
        content["config"].get("env"), str
    ):
        raise UserError(f"{path} holds no configuration with an `env`; the run is damaged.")
    return content["config"]


def _agent(path: Path, env: str, seed: int) -> str | None:
    """The name that a plan gave it; None without a plan."""
    if not path.exists():
        return None
    job = read_json(path)
    if not isinstance(job, dict) or not isinstance(job.get("agent"), str):
        raise UserError(f"{path} names no agent; the run is damaged.")
    if (job.get("game"), job.get("seed")) != (env, seed):
        raise UserError(
            f"{path} speaks of {job.get('game')!r} with seed {job.get('seed')!r}, and the run "
            f"plays {env!r} with seed {seed}; the run is damaged."
        )
    return style.plain(job["agent"])


def named_by(agent: dict[str, Any], num_steps: int) -> str:
    """What a plan would have called a run that was made without one."""
    algorithm = str(agent.get("algorithm", "visr"))
    if algorithm == "visr":
        features = "rf-" if agent["features"] == "random" else ""
        return f"{features}visr{'' if agent['gpi'] else '-no-gpi'}{_additions(agent)}"
    if algorithm == "diayn":
        return f"diayn-{agent['num_skills']}{'' if agent['diayn_subtract_prior'] else '-log-q'}"
    if agent.get("rainbow_recipe") == "data-efficient" and algorithm == "rainbow":
        return "der"
    return f"nsq-{short_count(num_steps).lower()}" if algorithm == "nsq" else algorithm


def _additions(agent: dict[str, Any]) -> str:
    """What goes beyond the paper's agent, in a plan's words; runs from before there was any have none."""
    named = {"objective": "visr", "bonus": "none", "task_distribution": "uniform"}
    found = [str(agent[k]) for k, off in named.items() if agent.get(k, off) != off]
    if agent.get("value_weight"):
        found.append("weighted")
    return "-plus" if found == ["rnd", "visited", "weighted"] else "".join(f"-{f}" for f in found)


def short_count(count: float) -> str:
    """100k, 2M, 2.5M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:g}"


def _age(path: Path) -> int:
    """The steps in the last whole row of metrics.csv; 0 where there is none."""
    with reading(path):
        if not path.exists():
            return 0
        with safe_open.to_read(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().decode("utf-8", errors="replace").split("\n")
    whole = [line for line in lines[:-1] if line]
    if not whole or whole[-1].startswith("num_steps"):
        return 0
    try:
        return int(float(whole[-1].split(",")[0]))
    except (ValueError, OverflowError):
        raise UserError(f"{path} is damaged: a row begins with no count of steps.") from None
