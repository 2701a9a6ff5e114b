"""Figures of what the replay learner practised: events by their lift, goals on a map or in a plane."""

from __future__ import annotations

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from visr.report import maps, style
from visr.report.read import Floats, RunData

MOST_EVENTS = 24
"""Events that are drawn; the page lists all."""
_ROW = 0.2
_NO_CONTROL = 1.1
"""A lift below this is no more than chance."""


def draw(run: RunData) -> Figure | None:
    """Events as bars, cells of a grid as a map, goals of vectors as dots; None for other goals."""
    tasks = run.practised
    if any(task.lift is not None for task in tasks):
        return _events(run)
    goals = [task for task in tasks if task.kind == "goal" and task.observation]
    if not goals:
        return None
    states = np.array([task.observation for task in goals])
    reached = np.array([task.reached for task in goals])
    if run.config.is_grid:
        return _cells(run, states[:, 0].astype(np.intp), reached)
    return _dots(run, states, reached) if states.shape[1] > 1 else None


def _events(run: RunData) -> Figure:
    """One bar for each event with a known lift, the largest first."""
    counted = [task for task in run.practised if task.lift is not None][:MOST_EVENTS]
    lifts = np.array([task.lift for task in counted], dtype=np.float64)
    height = _ROW * len(counted) + 0.6
    figure = Figure(figsize=(style.WIDTH, height))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.4, right=0.9, bottom=0.42 / height, top=1 - 0.1 / height)
    colours = [style.FAMILIES[0].colour if x >= _NO_CONTROL else style.WALL for x in lifts]
    places, shown = np.arange(len(counted)), np.maximum(lifts, 0.05)
    axes.barh(places, shown - 1, left=1, color=colours, height=0.66)
    axes.set_xscale("log")
    axes.axvline(1, color=style.MUTED, lw=0.8)
    axes.set_yticks(places, [style.plain(task.name, 40) for task in counted])
    axes.tick_params(axis="y", length=0, labelcolor=style.INK)
    axes.set_ylim(len(counted) - 0.4, -0.6)
    low, high = min(0.8, shown.min() * 0.9), max(2.0, shown.max() * 1.15)
    axes.set_xlim(low, high)
    marks = [x for x in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if low <= x <= high]
    axes.set_xticks(marks, [f"{x:g}" for x in marks])
    axes.minorticks_off()
    axes.set_xlabel("lift: rate while pursued / rate otherwise", fontsize=7.5, labelpad=2)
    for place, lift in zip(places, lifts, strict=True):
        axes.annotate(
            f"{lift:.1f}", (max(lift, 1), place), (4, 0), textcoords="offset points",
            va="center", fontsize=7, color=style.MUTED,
        )  # fmt: skip
    return figure


def _cells(run: RunData, states: np.ndarray, reached: Floats) -> Figure:
    """The share of recorded steps that reach each cell of the library."""
    cells = np.full(run.free.size, np.nan)
    inside = (states >= 0) & (states < run.free.size)
    cells[states[inside]] = reached[inside]
    return maps.cells(cells, run.free, "share of recorded steps that reach the cell")


def _dots(run: RunData, states: Floats, reached: Floats) -> Figure:
    """Goals in pairs of their numbers: the first and second, the third and fourth, ..."""
    assert run.library is not None
    names = run.library.field_names or tuple(f"x{i}" for i in range(states.shape[1]))
    pairs = [(i, i + 1) for i in range(0, min(states.shape[1], 6) - 1, 2)]
    figure = Figure(figsize=(style.WIDTH, 2.4))
    figure.subplots_adjust(left=0.09, right=0.88, bottom=0.2, top=0.94, wspace=0.42)
    least = max(float(reached[reached > 0].min(initial=1.0)), 1e-6)
    scale = ScalarMappable(LogNorm(least, max(float(reached.max()), 2 * least)), style.SEQUENTIAL)
    for place, (x, y) in enumerate(pairs):
        axes = figure.add_subplot(1, max(len(pairs), 2), place + 1)
        colours = scale.to_rgba(np.maximum(reached, least))
        axes.scatter(states[:, x], states[:, y], c=colours, s=11, linewidths=0)
        axes.set_xlabel(style.plain(names[x]), fontsize=7.5, labelpad=2)
        axes.set_ylabel(style.plain(names[y]), fontsize=7.5, labelpad=2)
    bar = figure.colorbar(scale, figure.add_axes((0.91, 0.2, 0.015, 0.74)))
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    bar.ax.set_title("reached", fontsize=7, color=style.MUTED)
    return figure
