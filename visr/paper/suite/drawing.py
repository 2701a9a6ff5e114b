"""A figure with its numbers; and the axes, line styles and legend that all figures of a suite share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from visr.paper.suite.cells import csv_cells
from visr.paper.suite.statistics import Curve
from visr.report import style
from visr.report.figures import Picture

_FAMILIES = {
    "RF VISR": "vermilion",
    "VISR": "blue",
    "DIAYN": "purple",
    "Pos Reward": "orange",
    "NSQ": "green",
    "Curiosity": "orange",
    "DQN": "sky",
    "Rainbow": "sky",
    "DER": "sky",
    "PPO": "sky",
    "SimPLe": "sky",
    "Random": "grey",
}
_DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_SOLID, _DASHED, _DOTTED, _ = _DASHES
_LEGEND_ROW = 0.145  # inches


class LineStyle(NamedTuple):
    """How a line is drawn."""

    color: str
    ls: Any


@dataclass(frozen=True)
class Drawing:
    """A figure that is drawn when it is needed, and the numbers in it."""

    name: str
    """Stem of its files."""
    title: str
    alt: str
    """A description for readers who cannot see it."""
    caption: str
    draw: Callable[[], Figure]
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    @cached_property
    def picture(self) -> Picture:
        """The drawn figure."""
        with style.figure_style():
            png = style.small_png(self.draw())
        return Picture(f"{self.name}.png", png)

    def csv(self) -> str:
        """Its numbers with ten digits."""
        rows = [[f"{c:.10g}" if isinstance(c, float) else c for c in row] for row in self.rows]
        return csv_cells([self.columns, *rows])


def colour(name: str) -> str:
    """One hue for a family of agents: VISR blue and random features red, as in the paper."""
    hue = next((hue for part, hue in _FAMILIES.items() if part in name), "ink")
    return style.PALETTE[hue]


def _dashes(name: str) -> Any:
    """Dotted without rewards and for random search, dashed for VISR without GPI, else solid."""
    if " by search" in name or name.endswith(" @0"):
        return _DOTTED
    return _DASHED if name.startswith(("VISR", "RF VISR")) else _SOLID


def line_styles(names: Sequence[str]) -> dict[str, LineStyle]:
    """A line style for each name, each used once.

    Where an agent's own is taken: its family's colour if only one line has it, else an unused colour.
    """
    styles: dict[str, LineStyle] = {}
    for name in names:
        own = LineStyle(colour(name), _dashes(name))
        if own not in styles.values():
            styles[name] = own
    for name in names:
        if name not in styles:
            used, own = [s.color for s in styles.values()], colour(name)
            hues = sorted(style.PALETTE.values(), key=lambda hue: hue in used)
            hues = [own, *hues] if used.count(own) < 2 or hues[0] in used else [*hues, own]
            every = [LineStyle(hue, dashes) for hue in hues for dashes in _DASHES]
            styles[name] = next((s for s in every if s not in styles.values()), every[0])
    return {name: styles[name] for name in names}


def new_figure(
    height: float,
    *,
    left: float,
    right: float,
    bottom: float,
    top: float,
    down: int = 1,
    across: int = 1,
    sharey: bool = False,
    legend: dict[str, LineStyle] | None = None,
    **spacing: float,
) -> tuple[Figure, list[Axes]]:
    """Axes in a figure of full width, with a legend below them.

    `left` and `right` are shares of the width; `height` (all above `bottom`), `bottom` and `top` are inches.
    """
    longest = max(map(len, legend or ()), default=0)
    columns = 4 if longest <= 20 else 3 if longest <= 30 else 2
    if legend:
        bottom += 0.08 + _LEGEND_ROW * math.ceil(len(legend) / columns)
    height += bottom
    figure = Figure(figsize=(style.WIDTH, height))
    axes = figure.subplots(down, across, squeeze=False, sharey=sharey)
    figure.subplots_adjust(left, bottom / height, right, 1 - top / height, **spacing)
    if legend:
        marks = [Line2D([], [], color=s.color, ls=s.ls, lw=1.4) for s in legend.values()]
        figure.legend(
            marks, [style.plain(name) for name in legend], loc="lower left", bbox_to_anchor=(0.01, 0.0),
            ncols=columns, frameon=False, fontsize=6.5, labelcolor=style.MUTED,
            handlelength=2.4, columnspacing=1.4, borderaxespad=0.2,
        )  # fmt: skip
    return figure, list(axes.flat)


def plot(
    axes: Axes,
    curves: Iterable[tuple[str, Curve]],
    styles: dict[str, LineStyle],
    lw: float,
    **options: Any,
) -> None:
    """Draw each named curve in its style, above a band of its intervals."""
    for name, curve in curves:
        if curve.interval is not None:
            band = curve.interval.low, curve.interval.high
            axes.fill_between(curve.x, *band, color=styles[name].color, alpha=0.15, lw=0)
        axes.plot(curve.x, curve.y, **styles[name]._asdict(), lw=lw, **options)


def plain_numbers() -> FuncFormatter:
    """Ticks such as −1,000 or 0.5."""
    return FuncFormatter(lambda x, _: f"{x:,.10g}".replace("-", "\N{MINUS SIGN}"))
