"""A figure with its numbers, and the colours, dashes and legend that all figures of a suite share."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

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
        return Picture(f"{self.name}.png", png, self.alt, self.caption)

    def csv(self) -> str:
        """Its numbers with ten digits."""
        content = io.StringIO()
        writer = csv.writer(content, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(
            [f"{cell:.10g}" if isinstance(cell, float) else cell for cell in row]
            for row in self.rows
        )
        return content.getvalue()


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
    """A line style for each name, each used once: where an agent's own is taken, the next free one."""
    styles: dict[str, LineStyle] = {}
    for name in names:
        own = LineStyle(colour(name), _dashes(name))
        if own not in styles.values():
            styles[name] = own
    for name in names:
        if name not in styles:
            used = {s.color for s in styles.values()}
            hues = [colour(name), *sorted(style.PALETTE.values(), key=lambda hue: hue in used)]
            every = [LineStyle(hue, dashes) for hue in hues for dashes in _DASHES]
            styles[name] = next((s for s in every if s not in styles.values()), every[0])
    return {name: styles[name] for name in names}


def legend_columns(names: Sequence[str]) -> int:
    """Names beside each other in a legend: fewer if they are long."""
    longest = max(map(len, names), default=0)
    return 4 if longest <= 20 else 3 if longest <= 30 else 2


def legend_height(names: Sequence[str]) -> float:
    """Inches of the legend."""
    return 0.08 + _LEGEND_ROW * math.ceil(len(names) / legend_columns(names))


def add_legend(figure: Figure, styles: dict[str, LineStyle]) -> None:
    """Names and line styles at the bottom of the figure, in as many rows as they need."""
    marks = [Line2D([], [], color=s.color, ls=s.ls, lw=1.4) for s in styles.values()]
    figure.legend(
        marks, [style.plain(name) for name in styles], loc="lower left", bbox_to_anchor=(0.01, 0.0),
        ncols=legend_columns(list(styles)), frameon=False, fontsize=6.5, labelcolor=style.MUTED,
        handlelength=2.4, columnspacing=1.4, borderaxespad=0.2,
    )  # fmt: skip
