"""All figures of a run: which are drawn, and their file names."""

from __future__ import annotations

import base64
import re
import struct
from dataclasses import dataclass

from matplotlib.figure import Figure

from visr.report import curves, imagined, library, maps, scores, style
from visr.report.read import RunData, SavedTask


@dataclass(frozen=True)
class Picture:
    """A drawn figure."""

    file: str
    """File name: letters, digits, `-` and `_` only."""
    png: bytes

    @property
    def data_uri(self) -> str:
        """The image as an address inside the page."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) on the page in CSS pixels: half of the pixels in the file."""
        width, height = struct.unpack(">II", self.png[16:24])
        return width // 2, height // 2


def draw(run: RunData) -> dict[str, Picture]:
    """All figures for which the run has data, by name; those of tasks are `task 0`, `task 1`, ..."""
    pictures: dict[str, Picture] = {}

    def add(name: str, figure: Figure, file: str | None = None) -> None:
        pictures[name] = Picture(file or f"{name.replace(' ', '_')}.png", style.png(figure))

    with style.figure_style():
        if any(family.key in run.evaluation for family in style.FAMILIES):
            add("optimal", curves.optimal(run.evaluation))
        if run.snapshot is not None:
            add("features", maps.features(run.snapshot))
            add("rewards", maps.rewards(run.snapshot))
            add("values", maps.values(run.snapshot))
        if run.library is not None and (figure := library.draw(run)) is not None:
            add("library", figure)
        if run.imagined is not None:
            add("imagined", imagined.frames(run.imagined))
            add("model error", imagined.errors(run.imagined))
        if (phase := run.two_phase) is not None:
            published = scores.published(phase.random_score, phase.human_score)
            add("phase two", scores.strips(phase.conditions, published))
        if run.online:
            published = scores.published(run.game.random, run.game.human) if run.game else []
            add("online", scores.online(run.online, published))
        if any(name in run.metrics for name in curves.METRICS):
            timing = {} if run.config.is_grid else run.timing
            add("training", curves.training(run.metrics, timing))
        for index, (saved, file) in enumerate(zip(run.tasks, _file_names(run.tasks), strict=True)):
            is_known = saved.task.reward is not None or saved.evaluation is not None
            if run.config.is_grid and is_known:
                add(f"task {index}", maps.task(saved, run.free), file)
    return pictures


def _file_names(tasks: tuple[SavedTask, ...]) -> list[str]:
    """policy_NAME.png for every task, in lower-case letters and digits, all different."""
    names: list[str] = []
    for saved in tasks:
        stem = re.sub(r"[^a-z0-9]+", "-", saved.stem.lower()).strip("-")[:60] or "task"
        endings = ["", *(f"-{number}" for number in range(2, len(tasks) + 2))]
        candidates = [f"policy_{stem}{ending}.png" for ending in endings]
        names.append(next(name for name in candidates if name not in names))
    return names
