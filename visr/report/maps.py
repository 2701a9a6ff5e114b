"""Maps over the cells of a grid: phi, rewards, values, and a policy as arrows."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import EllipseCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from visr.report import style
from visr.report.read import Floats, SavedTask
from visr.storage.records.grid import GridSnapshot

Bools = NDArray[np.bool_]

MOST_FEATURES = 50
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_MOST_ARROWS = 32  # per side; larger grids show the arrows of every second, third, ... cell
MOVES = np.array([(-1, 0), (0, -1), (1, 0), (0, 1)])  # (row, col): up, left, down, right


def around_zero(values: Floats) -> ScalarMappable:
    """Diverging colours with zero in the middle."""
    most = float(np.abs(_finite(values)).max()) or 1.0
    return ScalarMappable(Normalize(-most, most), style.DIVERGING)


def features(snapshot: GridSnapshot) -> Figure:
    """One map for each dimension of phi."""
    phi = snapshot.phi.T[:MOST_FEATURES]
    rows = math.ceil(len(phi) / 10)
    columns = math.ceil(len(phi) / rows)
    names = [f"φ{i + 1}".translate(_SUBSCRIPTS) for i in range(len(phi))]
    scale = around_zero(phi[:, snapshot.free.ravel()])
    return _sheet(phi, snapshot.free, columns, scale, "φ(s)", names)


def rewards(snapshot: GridSnapshot) -> Figure:
    """phi . w of the random tasks."""
    scale = around_zero(snapshot.rewards[:, snapshot.free.ravel()])
    return _sheet(snapshot.rewards, snapshot.free, 7, scale, "reward φ(s)·w")


def values(snapshot: GridSnapshot) -> Figure:
    """The GPI values of the same tasks, each map scaled from its own minimum to its own maximum.

    On one scale most maps would be flat: values differ more between tasks than between states.
    """
    inside = np.where(np.isfinite(snapshot.values), snapshot.values, np.nan)
    inside[:, ~snapshot.free.ravel()] = np.nan
    shares = np.stack([_share_of_range(cells) for cells in inside])
    scale = ScalarMappable(Normalize(0, 1), style.SEQUENTIAL)
    figure = _sheet(shares, snapshot.free, 7, scale, "value V(s), each map on its own scale")
    figure.axes[-1].set_xticks([0, 1], ["lowest", "highest"])
    return figure


def cells(values: Floats, free: Bools, unit: str) -> Figure:
    """One map of values [S] from 0 on; cells without a value are grey."""
    most = float(_finite(values).max()) or 1.0
    scale = ScalarMappable(Normalize(0, most), style.SEQUENTIAL)
    return _sheet(values[None], free, 1, scale, unit)


def task(saved: SavedTask, free: Bools) -> Figure:
    """The true reward [S], if it is known; if evaluated, also phi . w, the policy as arrows and its value."""
    found, panels = saved.evaluation, _panels(saved, free.ravel())
    heading = style.plain(saved.name, 26)
    if found is not None:
        fraction = style.number(found.fraction_of_optimal)
        heading = f"{style.plain(saved.name)}: {fraction} of optimal"
    edge, gap, above, below = 0.12, 0.2, 0.5, 0.34  # inches, as all sizes here
    side = (style.WIDTH - 2 * edge - 2 * gap) / 3
    tall = side * _aspect(free)
    width, height = len(panels) * (side + gap) - gap + 2 * edge, tall + above + below
    figure = Figure(figsize=(width, height))
    figure.text(edge / width, 1 - 0.08 / height, heading, va="top", fontsize=9, fontweight="bold")
    for index, (name, cells, scale) in enumerate(panels):
        left = edge + index * (side + gap)
        axes = _axes(figure, left, below, side, tall)
        draw_map(axes, cells, free, scale)
        style.title(axes, name)
        _bar(_axes(figure, left, 0.2, side, 0.06), scale)
        if found is not None and index < len(panels) - 1:
            draw_arrows(axes, found.policy.reshape(free.shape), free)
    return figure


def _panels(saved: SavedTask, inside: Bools) -> list[tuple[str, Floats, ScalarMappable]]:
    """Title, values [S] and scale of each map of a task."""
    rewards = {} if saved.task.reward is None else {"True reward": saved.task.reward}
    if saved.evaluation is not None:
        rewards["Represented reward φ·w"] = saved.evaluation.represented_reward
    panels = [(name, cells, around_zero(cells[inside])) for name, cells in rewards.items()]
    if saved.evaluation is not None:
        finite = _finite(saved.evaluation.values[inside])
        limits = Normalize(float(finite.min()), float(finite.max()))
        scale = ScalarMappable(limits, style.SEQUENTIAL)
        panels.append(("Value of the policy", saved.evaluation.values, scale))
    return panels


def _sheet(
    maps: Floats,
    free: Bools,
    columns: int,
    scale: ScalarMappable,
    unit: str,
    names: list[str] | None = None,
) -> Figure:
    """Maps [K, S] in rows of `columns`, with one scale and one colour bar; all sizes are in inches."""
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
        axes = _axes(figure, x, y, side, tall)
        draw_map(axes, cells, free, scale)
        if names:
            axes.set_title(names[index], loc="left", fontsize=7.5, color=style.MUTED, pad=2.5)
    _bar(_axes(figure, (width - 2.0) / 2, 0.34, 2.0, 0.07), scale, unit)
    return figure


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place in inches."""
    across, down = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / down, width / across, height / down))


def _aspect(free: Bools) -> float:
    """Height / width of a panel; very long or narrow grids get empty space in it."""
    height, width = free.shape
    return min(max(height / width, 0.3), 1.6)


def draw_map(axes: Axes, cells: Floats, free: Bools, scale: ScalarMappable) -> None:
    """Values [S] as colours; walls and cells without a value are grey."""
    grid = cells.reshape(free.shape)
    shown = np.ma.masked_where(~free | ~np.isfinite(grid), grid)
    low, high = scale.get_clim()
    axes.imshow(shown, scale.cmap, vmin=low, vmax=high, interpolation="nearest")
    axes.set(xticks=[], yticks=[], anchor="W")
    for spine in axes.spines.values():
        spine.set(visible=True, color=style.RULE, linewidth=0.6)


def _bar(axes: Axes, scale: ScalarMappable, label: str = "") -> None:
    bar = axes.figure.colorbar(scale, axes, orientation="horizontal")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    style.ticks(axes.xaxis, 4, lambda x: style.minus(f"{x:g}"))
    axes.tick_params(length=2, width=0.6, labelsize=7, pad=1.5)
    axes.set_xlabel(label, fontsize=7.5, labelpad=2)


def draw_arrows(axes: Axes, actions: NDArray[np.int64], free: Bools) -> None:
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
