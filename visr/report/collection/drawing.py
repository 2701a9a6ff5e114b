"""What every figure of a collection is made of: two pictures, its numbers, and the words beneath it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
        with style.house_style(theme):
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


_FAMILIES = (
    ("RF VISR", "vermilion"), ("VISR", "blue"), ("DIAYN", "purple"), ("Pos Reward", "orange"),
    ("NSQ", "green"), ("Curiosity", "orange"), ("DQN", "sky"), ("Rainbow", "sky"), ("PPO", "sky"), ("Random", "grey"),
)  # fmt: skip
_DASHES: dict[str, object] = {"solid": "-", "dashed": (0, (4, 2)), "dotted": (0, (1, 1.5))}


def colour(theme: Theme, algorithm: str) -> str:
    """One hue for a family of agents: VISR blue and random features red, as in the paper."""
    return next((theme.palette[hue] for part, hue in _FAMILIES if part in algorithm), theme.ink)


def dashes(algorithm: str) -> object:
    """Dashed without GPI, dotted where the task was found by search; 50 skills dashed too."""
    if "by search" in algorithm:
        return _DASHES["dotted"]
    plain_visr = "VISR" in algorithm and not algorithm.startswith("GPI")
    return _DASHES["dashed" if plain_visr or algorithm.endswith("-50") else "solid"]
