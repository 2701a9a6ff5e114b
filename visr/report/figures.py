"""Every picture of a report: which there are, what they are called, and what they say."""

from __future__ import annotations

import base64
import re
import struct
from dataclasses import dataclass

from visr.report import curves, maps, scores, style
from visr.report.phase_two import PhaseTwo
from visr.report.read import Portrait, Record, SavedTask
from visr.report.scores import Published

NUM_POLICIES = 10  # visr.evaluation.grid_snapshot, which cannot be asked without torch


@dataclass(frozen=True)
class Picture:
    """A finished figure."""

    file: str
    """A file name that is safe anywhere."""
    png: bytes
    alt: str
    """What it shows, for those who cannot see it."""
    caption: str
    """What one sees, and how to read it."""

    @property
    def data_uri(self) -> str:
        """The image itself as an address."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"

    @property
    def width(self) -> int:
        """On the page, in CSS pixels: half of the image's own."""
        return struct.unpack(">I", self.png[16:20])[0] // 2

    @property
    def height(self) -> int:
        """On the page, in CSS pixels."""
        return struct.unpack(">I", self.png[20:24])[0] // 2


def draw(record: Record) -> dict[str, Picture]:
    """All the pictures this run has the numbers for, by name; a task's name is its place, `task 0`."""
    pictures: dict[str, Picture] = {}
    with style.figure_style():
        if any(family.key in record.evaluation for family in style.FAMILIES):
            pictures["optimal"] = _optimal(record)
        if record.portrait is not None:
            pictures |= _portrait(record, record.portrait)
        if record.phase_two is not None:
            pictures["phase two"] = _phase_two(record.phase_two)
        if record.online:
            pictures["online"] = _online(record)
        if any(name in record.metrics for name in curves.METRICS):
            pictures["training"] = _training(record)
        files = _file_names(record.tasks)
        for index, (saved, file) in enumerate(zip(record.tasks, files, strict=True)):
            if record.is_grid and saved.task.reward is not None:
                pictures[f"task {index}"] = _task(record, saved, file)
    return pictures


def _optimal(record: Record) -> Picture:
    latest = record.fraction_of_optimal
    said = "; ".join(
        f"{f.title}: {style.number(latest[f.key])} without GPI"
        + (f", {style.number(latest[f'{f.key}_gpi'])} with" if f"{f.key}_gpi" in latest else "")
        for f in style.FAMILIES
        if f.key in latest
    )
    return Picture(
        "optimal.png",
        style.png(curves.optimal(record.evaluation)),
        f"Fraction of optimal over training, for three families of tasks. At the end: {said}.",
        "Solid lines act by generalised policy improvement (GPI), dashed lines by w's own policy. "
        "The dotted line plans perfectly on φ·w: it is what these features permit, so the gap below "
        "it is left to ψ, and the gap above it to φ.",
    )


def _portrait(record: Record, portrait: Portrait) -> dict[str, Picture]:
    d, shown = portrait.phi.shape[1], min(portrait.phi.shape[1], maps.MOST_FEATURES)
    first = f"The first {shown} of {d} dimensions" if shown < d else f"All {d} dimensions"
    origin = "The agent saw only the number of its cell, so whatever is smooth here was learnt."
    if record.config.agent.features == "random":
        origin = "They are as they were initialised: this run does not learn φ."
    count = len(portrait.rewards)
    grid = f"{record.config.grid.height} by {record.config.grid.width} grid"
    return {
        "features": Picture(
            "features.png",
            style.png(maps.features(portrait)),
            f"{first} of the features phi as maps over the {grid}.",
            f"{first} of φ, one map each: red where it is positive, blue where it is negative. {origin}",
        ),
        "rewards": Picture(
            "rewards.png",
            style.png(maps.rewards(portrait)),
            f"A sheet of {count} random rewards phi times w as maps over the {grid}.",
            f"{count} tasks w drawn at random, each as the reward φ·w that it stands for: red cells "
            "are sought, blue cells are shunned.",
        ),
        "values": Picture(
            "values.png",
            style.png(maps.values(portrait)),
            f"A sheet of {count} value maps for the same tasks in the same order.",
            "The same tasks in the same order: what the agent expects to collect from each cell on, "
            f"by GPI over {NUM_POLICIES} policies drawn at random. Bright hills should stand where the "
            "rewards above are red. Each map runs from its own lowest to its own highest value.",
        ),
    }


_PRETRAINING = (
    "The squared error of ψ; how well visited states tell which w was pursued (1 would be "
    "perfectly); and the length of φ's mean over visited states, where values near 1 would mean "
    "that φ says the same everywhere."
)
_TUNING = (
    "The squared error of Q; what a step was rewarded with; what whole episodes returned, where any ended; "
    "and, with reward-free steps, how much of new rewards' variance the reward's model foresaw."
)


def _training(record: Record) -> Picture:
    last = {name: record.metrics[name][-1] for name in curves.METRICS if name in record.metrics}
    said = ", ".join(f"{name.replace('_', ' ')} {style.number(x, 3)}" for name, x in last.items())
    timing = {} if record.is_grid else record.timing
    return Picture(
        "training.png",
        style.png(curves.training(record.metrics, timing)),
        f"Training curves over steps. At the end: {said}.",
        _PRETRAINING if record.tuning is None else _TUNING,
    )


def _online(record: Record) -> Picture:
    game, rows = record.game, record.online
    published = _published(game.random, game.human) if game else []
    last = float(scores.smoothed(rows)[-1])
    rules = (
        " Dashed: published scores of a random player and of a human (↑: above the scale)."
        if game
        else ""
    )
    return Picture(
        "online.png",
        style.png(scores.online(rows, published)),
        f"Raw scores of the rewarded episodes over training. The last mean: {style.number(last, 1)}.",
        "Each dot is the mean raw score of the episodes that ended since the dot before; the line is the "
        f"mean of the latest {scores.window(rows):,} episodes (of all, while there are fewer).{rules}",
    )


def _phase_two(phase: PhaseTwo) -> Picture:
    published = _published(phase.random_score, phase.human_score)
    said = "; ".join(
        f"{c.name}: {style.plus_minus(c.mean, c.standard_error)}" for c in phase.conditions
    )
    rules = " Dashed: published scores of a random player and of a human." if published else ""
    return Picture(
        "phase_two.png",
        style.png(scores.strips(phase.conditions, published)),
        f"Raw scores of single episodes, a strip for each way to act. Means: {said}.",
        "One dot an episode (heights only keep dots apart); the upright bar is the mean, the line "
        f"across it reaches two standard errors to either side.{rules}",
    )


def _published(random: float | None, human: float | None) -> list[Published]:
    """What a random player and a human score, as far as it is known."""
    known = [] if random is None else [Published("random", random, is_near=True)]
    return known if human is None else [*known, Published("human", human)]


def _task(record: Record, saved: SavedTask, file: str) -> Picture:
    task, found = saved.task, saved.evaluation
    assert task.reward is not None
    if found is None:
        return Picture(
            file,
            style.png(maps.reward_alone(style.plain(task.name, 26), task.reward, record.free)),
            f"The true reward of the task {task.name} as a map.",
            "The true reward: what the task asks for.",
        )
    fraction = style.number(found.fraction_of_optimal)
    heading = f"{style.plain(task.name)}: {fraction} of optimal"
    return Picture(
        file,
        style.png(maps.policy(heading, task.reward, found, record.free)),
        f"The true reward of the task {task.name}, the reward as the agent represents it, both with "
        f"the policy as arrows, and the policy's value. Fraction of optimal: {fraction}.",
        f"{fraction} of optimal: the policy is worth {style.number(found.value)}, a random one "
        f"{style.number(found.value_random)}, an optimal one {style.number(found.value_optimal)} "
        f"(mean over starts, discount {found.gamma:g}, {'GPI' if found.gpi else 'w alone, no GPI'}).",
    )


def _file_names(tasks: tuple[SavedTask, ...]) -> list[str]:
    """policy_NAME.png for every task, of plain letters and digits, and no two alike."""
    names: list[str] = []
    for saved in tasks:
        stem = re.sub(r"[^a-z0-9]+", "-", saved.stem.lower()).strip("-")[:60] or "task"
        endings = ["", *(f"-{number}" for number in range(2, len(tasks) + 2))]
        candidates = [f"policy_{stem}{ending}.png" for ending in endings]
        names.append(next(name for name in candidates if name not in names))
    return names
