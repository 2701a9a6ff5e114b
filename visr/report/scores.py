"""Figures of raw episode scores: over training, and one dot per episode."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from visr.report import curves, style
from visr.report.read import Columns, Floats
from visr.storage.records.two_phase import Condition

WINDOW = 30
"""The smoothed line averages at least so many episodes: as many as score a task."""
_SHARE = 20  # or this fraction of all episodes, 1 / 20, if that is more
_MARGIN = 0.5  # of the scores' range: published scores beyond this margin are not drawn to scale
_HEIGHT = 0.62  # inches per condition


@dataclass(frozen=True)
class Published:
    """A published score to compare with."""

    name: str
    score: float
    is_near: bool = False
    """Whether it is drawn wherever it lies."""


def published(random: float | None, human: float | None) -> list[Published]:
    """The published scores that are known."""
    known = [] if random is None else [Published("random", random, is_near=True)]
    return known if human is None else [*known, Published("human", human)]


def window(online: Columns) -> int:
    """The number of episodes that the smoothed line averages."""
    return max(WINDOW, round(float(online["num_episodes"].sum()) / _SHARE))


def smoothed(online: Columns) -> Floats:
    """Running mean over the latest rows that contain `window` episodes; nan before the first episode."""
    played = np.where(np.isfinite(online["mean_return"]), online["num_episodes"], 0.0)
    points = played * np.nan_to_num(online["mean_return"])
    count, total = (np.concatenate([[0.0], x.cumsum()]) for x in (played, points))
    begin = np.searchsorted(count, count[1:] - window(online), side="right") - 1
    begin = np.maximum(begin, 0)
    latest, none = count[1:] - count[begin], np.full(len(played), np.nan)
    return np.divide(total[1:] - total[begin], latest, out=none, where=latest > 0)


def placed(
    published: Sequence[Published], shown: Sequence[float]
) -> tuple[list[Published], list[Published]]:
    """Split into scores that an axis for `shown` includes and those too far away for it."""
    known = [*shown, *(each.score for each in published if each.is_near)] or [0.0]
    margin = _MARGIN * (max(known) - min(known))
    low, high = min(known) - margin, max(known) + margin
    near = [p for p in published if p.is_near or not shown or low <= p.score <= high]
    return near, [p for p in published if p not in near]


def online(rows: Columns, published: Sequence[Published]) -> Figure:
    """Dots: rows of online.csv; line: their running mean; dashed lines: published scores."""
    steps, raw = rows["num_steps"], rows["mean_return"]
    figure = Figure(figsize=(style.WIDTH, 2.5))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.085, right=0.84, bottom=0.16, top=0.97)
    size, alpha = (3.6, 0.6) if len(steps) < 400 else (2.4, 0.25)
    axes.plot(steps, raw, "o", color=style.WALL, alpha=alpha, ms=size, mew=0, clip_on=False)
    line, colour = smoothed(rows), style.FAMILIES[0].colour
    axes.plot(steps, line, color=colour, lw=1.6, marker=curves.marker_of(steps), ms=3)
    near, far = placed(published, raw[np.isfinite(raw)].tolist())
    ends = [(each.score, f"{each.name} {style.score(each.score)}", style.MUTED) for each in near]
    for each in near:
        axes.axhline(each.score, color=style.MUTED, lw=0.8, ls=(0, (4, 2)), zorder=1)
    if np.isfinite(line[-1]):
        ends.append((float(line[-1]), f"mean {style.score(line[-1])}", colour))
    curves.step_axis(axes, steps)
    low, high = axes.get_ylim()
    if not (raw < 0).any() and all(end[0] >= 0 for end in ends):
        low = 0.0
    axes.set_ylim(low, high)
    style.ticks(axes.yaxis, 5, _tick)
    ends += [(high, f"{each.name} {style.score(each.score)} ↑", style.MUTED) for each in far]
    curves.label_ends(axes, ends, gap=0.075 * (high - low), top=high)
    return figure


def strips(conditions: Sequence[Condition], published: Sequence[Published]) -> Figure:
    """One row per condition: a dot per episode, a bar at the mean, a line of two standard errors."""
    height = _HEIGHT * len(conditions) + 0.55
    figure = Figure(figsize=(style.WIDTH, height))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.2, right=0.86, bottom=0.36 / height, top=1 - 0.2 / height)
    colours = iter([family.colour for family in style.FAMILIES])
    for row, condition in enumerate(conditions):
        colour = next(colours, style.INK) if condition.is_inferred else style.MUTED
        _strip(axes, row, condition, colour)
    near, far = placed(published, [score for c in conditions for score in c.scores])
    for each in near:
        axes.axvline(each.score, color=style.MUTED, lw=0.8, ls=(0, (4, 2)), zorder=0)
        axes.annotate(
            each.name, (each.score, 1), (0, 2), xycoords=axes.get_xaxis_transform(),
            textcoords="offset points", ha="center", fontsize=7, color=style.MUTED,
        )  # fmt: skip
    beyond = "".join(f" ({e.name} {style.score(e.score)}: outside this axis)" for e in far)
    axes.set_xlabel(f"raw score of one episode{beyond}", fontsize=7.5, labelpad=2)
    if axes.dataLim.x0 >= 0:
        axes.set_xlim(left=0)
    axes.set_ylim(len(conditions) - 0.45, -0.55)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    style.ticks(axes.xaxis, 5, _tick)
    return figure


def _strip(axes: Axes, row: int, condition: Condition, colour: str) -> None:
    scores = np.asarray(condition.scores)
    axes.axhline(row, color=style.RULE, lw=0.5, zorder=0)
    axes.plot(scores, row + _offsets(scores), "o", color=colour, alpha=0.5, ms=4, mew=0)
    axes.plot([condition.mean] * 2, [row - 0.36, row + 0.36], color=colour, lw=2)
    if condition.standard_error is not None:
        ends = condition.mean + np.array([-2, 2]) * condition.standard_error
        axes.plot(ends, [row, row], color=colour, lw=2)
    name = textwrap.fill(style.plain(condition.name), 19)
    mean = style.plus_minus(condition.mean, condition.standard_error)
    for text, x, offset, side, hue in (
        (name, 0, -8, "right", style.INK),
        (mean, 1, 5, "left", colour),
    ):
        axes.annotate(
            text, (x, row), (offset, 0), xycoords=axes.get_yaxis_transform(),
            textcoords="offset points", va="center", ha=side, fontsize=7.5, color=hue,
        )  # fmt: skip


def _offsets(scores: Floats) -> Floats:
    """Vertical offsets that separate the dots of similar scores."""
    heights = np.array([0.0, 0.16, -0.16, 0.08, -0.24, 0.24, -0.08])
    placed = np.empty(len(scores))
    placed[np.argsort(scores, kind="stable")] = np.resize(heights, len(scores))
    return placed


def _tick(score: float) -> str:
    return style.minus(f"{score:,.10g}")
