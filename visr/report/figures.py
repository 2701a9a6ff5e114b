"""All figures of a run: which are drawn, their file names, alt texts and captions."""

from __future__ import annotations

import base64
import re
import struct
from dataclasses import dataclass

from visr.report import curves, maps, scores, style
from visr.report.read import RunData, SavedTask
from visr.report.scores import Published
from visr.storage.records.grid import NUM_POLICIES, GridSnapshot
from visr.storage.records.two_phase import TwoPhase


@dataclass(frozen=True)
class Picture:
    """A drawn figure."""

    file: str
    """File name: letters, digits, `-` and `_` only."""
    png: bytes
    alt: str
    """What it shows, for screen readers."""
    caption: str
    """What it shows, and how to read it."""

    @property
    def data_uri(self) -> str:
        """The image as an address inside the page."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"

    @property
    def width(self) -> int:
        """On the page, in CSS pixels: half of the pixels in the file."""
        return struct.unpack(">I", self.png[16:20])[0] // 2

    @property
    def height(self) -> int:
        """On the page, in CSS pixels."""
        return struct.unpack(">I", self.png[20:24])[0] // 2


def draw(run: RunData) -> dict[str, Picture]:
    """All figures for which the run has data, by name; those of tasks are `task 0`, `task 1`, ..."""
    pictures: dict[str, Picture] = {}
    with style.figure_style():
        if any(family.key in run.evaluation for family in style.FAMILIES):
            pictures["optimal"] = _optimal(run)
        if run.snapshot is not None:
            pictures |= _snapshot(run, run.snapshot)
        if run.two_phase is not None:
            pictures["phase two"] = _two_phase(run.two_phase)
        if run.online:
            pictures["online"] = _online(run)
        if any(name in run.metrics for name in curves.METRICS):
            pictures["training"] = _training(run)
        files = _file_names(run.tasks)
        for index, (saved, file) in enumerate(zip(run.tasks, files, strict=True)):
            if run.is_grid and saved.task.reward is not None:
                pictures[f"task {index}"] = _task(run, saved, file)
    return pictures


def _optimal(run: RunData) -> Picture:
    latest = run.fraction_of_optimal
    numbers = "; ".join(
        f"{f.title}: {style.number(latest[f.key])} without GPI"
        + (f", {style.number(latest[f'{f.key}_gpi'])} with" if f"{f.key}_gpi" in latest else "")
        for f in style.FAMILIES
        if f.key in latest
    )
    return Picture(
        "optimal.png",
        style.png(curves.optimal(run.evaluation)),
        f"Fraction of optimal over training, for three families of tasks. At the end: {numbers}.",
        "Solid lines act by generalised policy improvement (GPI), dashed lines by the policy of w alone. "
        "The dotted line is optimal planning on the reward φ·w, the most that these features permit: "
        "the gap below it is the error of ψ, the gap above it the error of φ.",
    )


def _snapshot(run: RunData, snapshot: GridSnapshot) -> dict[str, Picture]:
    d, shown = snapshot.phi.shape[1], min(snapshot.phi.shape[1], maps.MOST_FEATURES)
    first = f"The first {shown} of {d} dimensions" if shown < d else f"All {d} dimensions"
    origin = "The agent observes only the number of its cell, so any smoothness was learnt."
    if run.config.agent.features == "random":
        origin = "They are as initialised: this run does not train φ."
    count = len(snapshot.rewards)
    grid = f"{run.config.grid.height} by {run.config.grid.width} grid"
    return {
        "features": Picture(
            "features.png",
            style.png(maps.features(snapshot)),
            f"{first} of the features phi as maps over the {grid}.",
            f"{first} of φ, one map each: red is positive, blue is negative. {origin}",
        ),
        "rewards": Picture(
            "rewards.png",
            style.png(maps.rewards(snapshot)),
            f"{count} random rewards phi times w as maps over the {grid}.",
            f"{count} random tasks w, each as the reward φ·w that it stands for: red is positive, "
            "blue is negative.",
        ),
        "values": Picture(
            "values.png",
            style.png(maps.values(snapshot)),
            f"{count} value maps for the same tasks in the same order.",
            "The same tasks in the same order: the value that the agent predicts for each cell, by GPI over "
            f"{NUM_POLICIES} random policies. High values should lie where the rewards above are red. Each "
            "map has its own colour scale, from its lowest to its highest value.",
        ),
    }


def _training(run: RunData) -> Picture:
    last = {name: run.metrics[name][-1] for name in curves.METRICS if name in run.metrics}
    numbers = ", ".join(f"{name} {style.number(x, 3)}" for name, x in last.items())
    explained = "; ".join(curves.METRICS[name][1] for name in last)
    return Picture(
        "training.png",
        style.png(curves.training(run.metrics, {} if run.is_grid else run.timing)),
        f"Training curves over steps. At the end: {numbers}.",
        f"{explained[0].upper()}{explained[1:]}.",
    )


def _online(run: RunData) -> Picture:
    game, rows = run.game, run.online
    published = _published(game.random, game.human) if game else []
    last = float(scores.smoothed(rows)[-1])
    dashed = " Dashed: published scores of a random player and of a human (↑: above the axis)."
    return Picture(
        "online.png",
        style.png(scores.online(rows, published)),
        f"Raw scores of rewarded episodes over training. The last mean: {style.number(last, 1)}.",
        "Each dot is the mean raw score of the episodes that ended since the previous dot; the line is the "
        f"mean of the last {scores.window(rows):,} episodes (of all, while there are fewer)."
        f"{dashed if game else ''}",
    )


def _two_phase(phase: TwoPhase) -> Picture:
    published = _published(phase.random_score, phase.human_score)
    means = "; ".join(
        f"{c.name}: {style.plus_minus(c.mean, c.standard_error)}" for c in phase.conditions
    )
    dashed = " Dashed: published scores of a random player and of a human." if published else ""
    return Picture(
        "phase_two.png",
        style.png(scores.strips(phase.conditions, published)),
        f"Raw scores of single episodes, one row per policy. Means: {means}.",
        "One dot per episode (heights only separate the dots); the vertical bar is the mean, the "
        f"horizontal line extends two standard errors to each side.{dashed}",
    )


def _published(random: float | None, human: float | None) -> list[Published]:
    """The published scores that are known."""
    known = [] if random is None else [Published("random", random, is_near=True)]
    return known if human is None else [*known, Published("human", human)]


def _task(run: RunData, saved: SavedTask, file: str) -> Picture:
    task, found = saved.task, saved.evaluation
    assert task.reward is not None
    heading = style.plain(task.name, 26 if found is None else 44)
    alt = f"The true reward of the task {task.name}"
    caption = "The true reward of the task."
    if found is not None:
        fraction = style.number(found.fraction_of_optimal)
        heading = f"{heading}: {fraction} of optimal"
        alt += (
            ", the reward phi times w, both with the policy as arrows, and the value of the policy. "
            f"Fraction of optimal: {fraction}"
        )
        caption = (
            f"{fraction} of optimal: the value of the policy is {style.number(found.value)}, of a random "
            f"policy {style.number(found.value_random)}, of an optimal policy "
            f"{style.number(found.value_optimal)} (mean over start states, discount {found.gamma:g}, "
            f"{'with' if found.gpi else 'without'} GPI)."
        )
    png = style.png(maps.task(heading, task.reward, found, run.free))
    return Picture(file, png, f"{alt}.", caption)


def _file_names(tasks: tuple[SavedTask, ...]) -> list[str]:
    """policy_NAME.png for every task, in lower-case letters and digits, all different."""
    names: list[str] = []
    for saved in tasks:
        stem = re.sub(r"[^a-z0-9]+", "-", saved.stem.lower()).strip("-")[:60] or "task"
        endings = ["", *(f"-{number}" for number in range(2, len(tasks) + 2))]
        candidates = [f"policy_{stem}{ending}.png" for ending in endings]
        names.append(next(name for name in candidates if name not in names))
    return names
