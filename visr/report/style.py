"""The style of all figures (colours, fonts, PNG output) and the format of numbers."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

INK, MUTED, RULE, WALL = "#20262c", "#66707a", "#c9d0d6", "#9aa2aa"
WIDTH = 6.4
"""Inches of a full-width figure."""
DPI = 216

# Okabe and Ito's colours, which colour-blind readers can tell apart
PALETTE = {
    "blue": "#0072B2", "vermilion": "#D55E00", "green": "#009E73", "purple": "#CC79A7",
    "orange": "#E69F00", "sky": "#56B4E9", "grey": "#7d868f", "ink": INK,
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """One of the three families of held-out tasks that are evaluated during training."""

    key: str
    title: str
    explanation: str
    colour: str


FAMILIES = (
    Family("span", "Random w", "rewards φ can express", PALETTE["blue"]),
    Family("boxes", "Two boxes", "two 4 × 4 boxes of reward", PALETTE["vermilion"]),
    Family("goals", "Goal cells", "one rewarded cell", PALETTE["green"]),
)

_LIGHT = matplotlib.colormaps["RdBu_r"](np.linspace(0.06, 0.94, 256))
DIVERGING = LinearSegmentedColormap.from_list("diverging", _LIGHT).with_extremes(bad=WALL)
"""Blue below zero, white at zero, red above; the ends are light enough for black arrows."""
SEQUENTIAL = matplotlib.colormaps["viridis"].with_extremes(bad=WALL)

_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.parse_math": False,  # names of tasks may contain dollar signs
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.solid_capstyle": "round",
    "figure.dpi": 100,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": RULE,
    "xtick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.color": RULE,
    "ytick.labelcolor": MUTED,
}


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Draw with these settings, not with the user's matplotlibrc; restore the user's afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def png(figure: Figure) -> bytes:
    """The figure as a PNG without date and version, so that equal figures are equal bytes."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI, metadata={"Software": None})
    return content.getvalue()


def small_png(figure: Figure) -> bytes:
    """The figure as a PNG of at most 256 colours, a third of the size; it would change the shades of maps."""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    image = Image.fromarray(pixels).quantize(
        256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )
    colours = np.reshape(image.getpalette() or [], (-1, 3))
    colours[np.asarray(image)[0, 0]] = pixels[0, 0]  # white exactly, as on the page
    image.putpalette(colours.ravel().tolist())
    content = io.BytesIO()
    image.save(content, "png")
    return content.getvalue()


def title(axes: Axes, text: str, colour: str = INK) -> None:
    """Write a panel's title above it, aligned left."""
    axes.set_title(text, loc="left", fontsize=8, fontweight="bold", color=colour, pad=4)


def ticks(axis: Axis, most: int, text: Callable[[float], str]) -> None:
    """Divide an axis into at most so many parts at round numbers, which `text` writes."""
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda x, _: text(x)))


def plain(text: str, most: int = 44) -> str:
    """Text that the font can draw on one line: printable ASCII, at most `most` characters."""
    drawn = "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
    return drawn if len(drawn) <= most else f"{drawn[: most - 3]}..."


def number(x: float | None, digits: int = 2) -> str:
    """A number with a true minus sign; a dash if it is missing or not finite."""
    return "–" if x is None or not np.isfinite(x) else minus(f"{x:.{digits}f}")


def score(x: float) -> str:
    """A raw score: without decimals from 100 on, else with one."""
    return minus(f"{x:,.{0 if abs(x) >= 99.95 else 1}f}")


def plus_minus(mean: float, error: float | None) -> str:
    """A mean score ± its standard error, if that is known."""
    digits = 0 if abs(mean) >= 99.95 else 1
    return score(mean) + ("" if error is None else f" ± {error:,.{digits}f}")


def minus(text: str) -> str:
    """The number with a true minus sign."""
    return text.replace("-", "\N{MINUS SIGN}")
