"""What every figure of a collection is made of: two pictures, its numbers, and the words beneath it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from visr.report import style
from visr.report.style import Theme


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn in any theme, and the numbers in it."""

    name: str
    """Of its files."""
    title: str
    alt: str
    """What it shows, for those who cannot see it."""
    caption: str
    draw: Callable[[Theme], Figure]
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Plate:
    """A finished drawing."""

    name: str
    title: str
    alt: str
    caption: str
    light: bytes
    dark: bytes
    csv: str

    def files(self) -> dict[str, bytes]:
        """By file name."""
        return {
            f"{self.name}{style.LIGHT.suffix}.png": self.light,
            f"{self.name}{style.DARK.suffix}.png": self.dark,
            f"{self.name}.csv": self.csv.encode(),
        }


def finished(drawing: Drawing) -> Plate:
    """Drawn in both themes."""
    pngs = []
    for theme in (style.LIGHT, style.DARK):
        with style.figure_style(theme):
            pngs.append(style.small_png(drawing.draw(theme)))
    return Plate(
        drawing.name, drawing.title, drawing.alt, drawing.caption, *pngs, csv=_csv(drawing)
    )


def _csv(drawing: Drawing) -> str:
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(drawing.columns)
    writer.writerows([_plain(cell) for cell in row] for row in drawing.rows)
    return content.getvalue()


def _plain(cell: object) -> object:
    """Ten digits are enough for anyone who draws it again."""
    return f"{cell:.10g}" if isinstance(cell, float) else cell


_FAMILIES = {
    "RF VISR": "vermilion",
    "VISR": "blue",
    "DIAYN": "purple",
    "Pos Reward": "orange",
    "NSQ": "green",
    "Curiosity": "orange",
    "DQN": "sky",
    "Rainbow": "sky",
    "PPO": "sky",
    "Random": "grey",
}
_DASHED, _DOTTED = (0, (4, 2)), (0, (1, 1.5))
_VARIANTS: tuple[tuple[str, object], ...] = (
    (r".* by search.*", _DOTTED),
    (r".*(VISR|DIAYN).* @0", _DOTTED),
    (r"NSQ @100k|Rainbow.*", _DOTTED),
    (r"NSQ @1M|PPO.*|IDF.*|Q-DIAYN-50.*", _DASHED),
    (r"(RF )?VISR.*", _DASHED),  # without GPI
)


def colour(theme: Theme, algorithm: str) -> str:
    """One hue for a family of agents: VISR blue and random features red, as in the paper."""
    return next(
        (theme.palette[hue] for part, hue in _FAMILIES.items() if part in algorithm), theme.ink
    )


def dashes(name: str) -> Any:
    """Solid with GPI, dashed without; variants of other agents are told apart in the same way."""
    return next((line for words, line in _VARIANTS if re.fullmatch(words, name)), "-")
