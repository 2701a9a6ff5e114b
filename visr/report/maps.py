"""Maps over the cells of a grid: phi, rewards, values, and a policy as arrows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import EllipseCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from visr.report import style
from visr.report.read import Floats
from visr.storage.records.grid import Evaluation, GridSnapshot

Bools = NDArray[np.bool_]

MOST_FEATURES = 50
_MOST_ARROWS = 32  # per side; larger grids show the arrows of every second, third, ... cell
MOVES = np.array([(-1, 0), (0, -1), (1, 0), (0, 1)])  # (row, col): up, left, down, right


@dataclass(frozen=True)
class Scale:
    """A colour map and its limits."""

    colours: Colormap
    limits: Normalize

    @classmethod
    def around_zero(cls, values: Floats) -> Scale:
        """Diverging colours with zero in the middle."""
        most = float(np.abs(_finite(values)).max()) or 1.0
        return cls(style.diverging(), Normalize(-most, most))

    @classmethod
    def from_least_to_most(cls, values: Floats) -> Scale:
        """Sequential colours."""
        finite = _finite(values)
        return cls(style.sequential(), Normalize(float(finite.min()), float(finite.max())))


def features(snapshot: GridSnapshot) -> Figure:
    """One map for each dimension of phi."""
    phi = snapshot.phi.T[:MOST_FEATURES]
    rows = math.ceil(len(phi) / 10)
    columns = math.ceil(len(phi) / rows)
    names = [f"φ{_subscript(i + 1)}" for i in range(len(phi))]
    scale = Scale.around_zero(phi[:, snapshot.free.ravel()])
    return _sheet(phi, snapshot.free, columns, scale, "φ(s)", names)


def rewards(snapshot: GridSnapshot) -> Figure:
    """phi . w of the random tasks."""
    scale = Scale.around_zero(snapshot.rewards[:, snapshot.free.ravel()])
    return _sheet(snapshot.rewards, snapshot.free, 7, scale, "reward φ(s)·w")


def values(snapshot: GridSnapshot) -> Figure:
    """The GPI values of the same tasks, each map scaled from its own minimum to its own maximum.

    On one scale most maps would be flat: values differ more between tasks than between states.
    """
    inside = np.where(np.isfinite(snapshot.values), snapshot.values, np.nan)
    inside[:, ~snapshot.free.ravel()] = np.nan
    shares = np.stack([_share_of_range(cells) for cells in inside])
    scale = Scale(style.sequential(), Normalize(0, 1))
    figure = _sheet(shares, snapshot.free, 7, scale, "value V(s), each map on its own scale")
    bar = figure.axes[-1]
    bar.set_xticks([0, 1], ["lowest", "highest"])
    return figure


def task(heading: str, reward: Floats, evaluation: Evaluation | None, free: Bools) -> Figure:
    """The true reward [S]; if evaluated, also phi . w, the policy as arrows and its value."""
    panels = [("True reward", reward, Scale.around_zero(reward[free.ravel()]))]
    if evaluation is not None:
        represented, value = evaluation.represented_reward, evaluation.values
        scale = Scale.around_zero(represented[free.ravel()])
        panels.append(("Represented reward φ·w", represented, scale))
        scale = Scale.from_least_to_most(value[free.ravel()])
        panels.append(("Value of the policy", value, scale))
    figure, every, bars = _task_figure(heading, len(panels), free)
    for axes, bar, (name, cells, scale) in zip(every, bars, panels, strict=True):
        _map(axes, cells, free, scale)
        style.title(axes, name)
        _bar(figure, bar, scale)
    if evaluation is not None:
        for axes in every[:2]:
            _arrows(axes, evaluation.policy.reshape(free.shape), free)
    return figure


def _sheet(
    maps: Floats, free: Bools, columns: int, scale: Scale, unit: str, names: list[str] | None = None
) -> Figure:
    """Maps [K, S] in rows of `columns`, with one scale and one colour bar; all sizes in inches."""
    rows, edge, gap = math.ceil(len(maps) / columns), 0.06, 0.09
    above, below = (0.17 if names else 0.0), 0.5
    side = min(1.18, (style.WIDTH - 2 * edge - (columns - 1) * gap) / columns)
    tall = side * _aspect(free)
    width = max(2.6, columns * (side + gap) - gap + 2 * edge)
    left = (width - columns * (side + gap) + gap) / 2
    height = rows * (tall + above + gap) - gap + edge + below
    figure = Figure(figsize=(width, height))
    for index, cells in enumerate(maps):
        row, column = divmod(index, columns)
        x = left + column * (side + gap)
        y = height - edge - (row + 1) * (tall + above) - row * gap
        axes = figure.add_axes((x / width, y / height, side / width, tall / height))
        _map(axes, cells, free, scale)
        if names:
            axes.set_title(names[index], loc="left", fontsize=7.5, color=style.MUTED, pad=2.5)
    bar = figure.add_axes(((width - 2.0) / 2 / width, 0.34 / height, 2.0 / width, 0.07 / height))
    _bar(figure, bar, scale, unit)
    return figure


def _task_figure(heading: str, panels: int, free: Bools) -> tuple[Figure, list[Axes], list[Axes]]:
    """Axes for a row of maps with a colour bar under each, under one heading; all sizes in inches."""
    edge, gap, above, below = 0.12, 0.2, 0.5, 0.34
    side = (style.WIDTH - 2 * edge - 2 * gap) / 3
    tall = side * _aspect(free)
    width, height = panels * (side + gap) - gap + 2 * edge, tall + above + below
    figure = Figure(figsize=(width, height))
    figure.text(edge / width, 1 - 0.08 / height, heading, va="top", fontsize=9, fontweight="bold")
    maps, bars = [], []
    for index in range(panels):
        x = (edge + index * (side + gap)) / width
        maps.append(figure.add_axes((x, below / height, side / width, tall / height)))
        bars.append(figure.add_axes((x, 0.2 / height, side / width, 0.06 / height)))
    return figure, maps, bars


def _aspect(free: Bools) -> float:
    """Height / width of a panel; very long or narrow grids get empty space in it."""
    height, width = free.shape
    return min(max(height / width, 0.3), 1.6)


def _map(axes: Axes, cells: Floats, free: Bools, scale: Scale) -> None:
    grid = cells.reshape(free.shape)
    shown = np.ma.masked_where(~free | ~np.isfinite(grid), grid)
    axes.imshow(shown, cmap=scale.colours, norm=scale.limits, interpolation="nearest")
    axes.set(xticks=[], yticks=[], anchor="W")
    for spine in axes.spines.values():
        spine.set(visible=True, color=style.RULE, linewidth=0.6)


def _bar(figure: Figure, axes: Axes, scale: Scale, label: str = "") -> None:
    bar = figure.colorbar(
        ScalarMappable(scale.limits, scale.colours), axes, orientation="horizontal"
    )
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    bar.locator = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
    bar.formatter = FuncFormatter(lambda x, _: f"{x:g}".replace("-", "\N{MINUS SIGN}"))
    bar.update_ticks()
    axes.tick_params(length=2, width=0.6, labelsize=7, pad=1.5)
    if label:
        bar.set_label(label, fontsize=7.5, labelpad=2)


def _arrows(axes: Axes, actions: NDArray[np.int64], free: Bools) -> None:
    """Draw each cell's action as an arrow, or as a dot if a wall or the edge blocks it."""
    every = math.ceil(max(free.shape) / _MOST_ARROWS)
    moves = MOVES[actions]
    rows, columns = np.nonzero(free)
    shown = (rows % every == every // 2) & (columns % every == every // 2)
    rows, columns = rows[shown], columns[shown]
    down, right = moves[rows, columns].T
    walled = np.pad(free, 1)
    blocked = ~walled[rows + down + 1, columns + right + 1]
    moving = ~blocked
    axes.quiver(
        *(columns[moving], rows[moving]),
        *(0.66 * every * right[moving], 0.66 * every * down[moving]),
        **dict.fromkeys(("angles", "units", "scale_units"), "xy"),
        scale=1, pivot="mid", width=0.085 * every, headwidth=4, headlength=3.6, headaxislength=3.2,
        color=style.INK, edgecolor="white", linewidth=0.35,
    )  # fmt: skip
    size = np.full(int(blocked.sum()), 0.3 * every)
    dots = EllipseCollection(
        size, size, np.zeros_like(size), units="xy",
        offsets=np.column_stack([columns[blocked], rows[blocked]]), offset_transform=axes.transData,
        facecolor=style.INK, edgecolor="white", linewidth=0.35,
    )  # fmt: skip
    axes.add_collection(dots)


def _finite(values: Floats) -> Floats:
    finite = values[np.isfinite(values)]
    return finite if finite.size else np.zeros(1)


def _share_of_range(cells: Floats) -> Floats:
    """Scale to 0 at the minimum and 1 at the maximum; a constant map is 0.5."""
    finite = _finite(cells)
    low, high = float(finite.min()), float(finite.max())
    return (cells - low) / (high - low) if high > low else np.where(np.isfinite(cells), 0.5, np.nan)


def _subscript(number: int) -> str:
    return "".join(chr(0x2080 + int(digit)) for digit in str(number))
