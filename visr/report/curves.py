"""Curves over training steps: metrics, and exact fractions of optimal."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from visr.report import style
from visr.report.read import Columns, Floats

METRICS = {
    # column of metrics.csv: title of its panel, explanation in the caption
    "psi_loss": ("Loss of ψ", "the squared error of ψ"),
    "psi_spread": ("Spread of ψ over states", "how much ψ varies over states (0: not at all)"),
    "intrinsic_reward": ("Intrinsic reward φ(s′)·w", "the intrinsic reward, at most 1"),
    "feature_concentration": (
        "Concentration ‖mean φ‖",
        "the length of φ's mean over visited states (1: φ is the same in all of them)",
    ),
    "loss": ("Loss of Q", "the squared error of Q"),
    "reward": ("Reward per step", "the reward per step"),
    "return": ("Episode return", "the return of finished episodes"),
    "plane_accuracy": ("Cells predicted", "the share of all cells that the model predicts"),
    "changed_accuracy": (
        "Changed cells predicted",
        "the share of the cells that changed that the model predicts",
    ),
    "frame_loss": ("Loss of the frame", "the model's loss of the next frame in nats"),
    "simulated_reward": ("Simulated reward", "the reward per simulated step"),
    "foreseen": (
        "Reward variance predicted",
        "the share of the variance of new rewards that the reward model predicts",
    ),
}
_LOG_FROM = 20  # a loss whose maximum / minimum exceeds this gets a logarithmic axis
_TOP = 1.09  # of the axis: slightly above the optimum
_KINDS = (
    # suffix of the column, label, dashes, width
    ("_gpi", "GPI", "-", 1.5),
    ("", "no GPI", (0, (4, 2)), 1.2),
    ("_planned", "planned", (0, (1, 1.5)), 0.9),
)


def training(metrics: Columns, timing: Columns | None = None) -> Figure:
    """One panel per metric over steps, and one for the speed; at most three in a row."""
    panels = [(name, metrics["num_steps"], metrics[name]) for name in METRICS if name in metrics]
    if timing and "steps_per_second" in timing:
        panels.append(("steps_per_second", timing["num_steps"], timing["steps_per_second"]))
    across = 2 if len(panels) == 4 else min(len(panels), 3)
    down = math.ceil(len(panels) / across)
    figure = Figure(figsize=(style.WIDTH, 1.95 * down), layout="constrained")
    if down > 1:
        figure.set_layout_engine("constrained", hspace=0.08, wspace=0.06)
    for index, panel in enumerate(panels, start=1):
        _metric(figure.add_subplot(down, across, index), *panel)
    return figure


def _metric(axes: Axes, name: str, steps: Floats, y: Floats) -> None:
    axes.plot(steps, y, color=style.INK, linewidth=1.1, marker=marker_of(steps), markersize=3)
    style.title(axes, METRICS[name][0] if name in METRICS else "Speed, steps/s")
    low, high = np.min(y, initial=np.inf, where=np.isfinite(y)), np.nanmax(y, initial=0)
    if name in ("psi_loss", "loss") and 0 < low * _LOG_FROM < high:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes.set_ylim(bottom=min(0.0, low))
    if name == "feature_concentration" and high > 0.5:
        axes.axhline(1, color=style.MUTED, linewidth=0.7)
        axes.set_ylim(top=1.06)
    step_axis(axes, steps)


def optimal(evaluation: Columns) -> Figure:
    """Fraction of optimal over steps, one panel per family: solid GPI, dashed without, dotted the limit."""
    families = [f for f in style.FAMILIES if f.key in evaluation]
    figure = Figure(figsize=(style.WIDTH, 2.4))
    every = figure.subplots(1, len(style.FAMILIES), sharey=True)
    figure.subplots_adjust(left=0.055, right=0.88, bottom=0.165, top=0.89, wspace=0.6)
    for axes in every[len(families) :]:
        axes.remove()  # a small grid has no tasks with two boxes
    fractions = np.concatenate([y for name, y in evaluation.items() if name != "num_steps"])
    least = np.min(fractions, initial=0.0, where=np.isfinite(fractions))
    low = least - 0.03 if least < 0 else 0.0
    every[0].text(0, _TOP, " optimal", va="top", fontsize=7, color=style.MUTED)
    for axes, family in zip(every[: len(families)], families, strict=True):
        axes.axhline(1, color=style.MUTED, linewidth=0.7)
        axes.axhline(0, color=style.RULE, linewidth=0.7)
        _family(axes, family, evaluation, low)
        axes.set_ylim(low, _TOP)
        style.ticks(axes.yaxis, 5, style.number)
        style.title(axes, family.title, family.colour)
        step_axis(axes, evaluation["num_steps"])
    return figure


def _family(axes: Axes, family: style.Family, evaluation: Columns, low: float) -> None:
    steps, ends = evaluation["num_steps"], []
    for suffix, label, dashes, width in _KINDS:
        y = evaluation.get(family.key + suffix)
        if y is None:
            continue
        colour = style.MUTED if suffix == "_planned" else family.colour
        marker = marker_of(steps)
        axes.plot(steps, y, color=colour, ls=dashes, lw=width, marker=marker, markersize=3)
        if np.isfinite(y[-1]):
            ends.append((float(y[-1]), f"{label} {style.number(y[-1])}", colour))
    label_ends(axes, ends, gap=0.085 * (_TOP - low), top=1.0)


def label_ends(axes: Axes, ends: list[tuple[float, str, str]], gap: float, top: float) -> None:
    """Label the right ends of lines with (height, text, colour), moved apart if they would overlap."""
    heights = _spread([end[0] for end in ends], gap=gap, top=top)
    for (_, text, colour), height in zip(ends, heights, strict=True):
        axes.annotate(
            text, (1, height), (4, 0), xycoords=axes.get_yaxis_transform(),
            textcoords="offset points", va="center", fontsize=7, color=colour, annotation_clip=False,
        )  # fmt: skip


def step_axis(axes: Axes, steps: Floats) -> None:
    """Set the horizontal axis: steps from 0 to the last."""
    last = float(steps.max())
    axes.set_xlim(0, last or 1)
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 3, 4, 5, 10]))
    units = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
    size, unit = next(((size, unit) for size, unit in units if last >= size), (1.0, ""))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / size:g}{unit if x else ''}"))
    axes.set_xlabel("steps", fontsize=7.5, labelpad=2)


def marker_of(steps: Floats) -> str:
    """A line of one point is invisible without a marker."""
    return "o" if len(steps) == 1 else ""


def _spread(heights: list[float], gap: float, top: float) -> list[float]:
    """Move heights at least `gap` apart, in the same order and none above `top`."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed = dict.fromkeys(order, 0.0)
    below = -np.inf
    for i in order:
        placed[i] = below = max(heights[i], below + gap)
    above = top + gap
    for i in reversed(order):
        placed[i] = above = min(placed[i], above - gap)
    return [placed[i] for i in range(len(heights))]
