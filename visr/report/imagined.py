"""Figures of a world model: real and predicted frames side by side, and its errors by horizon."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from visr.report import style
from visr.storage.records.imagined import Imagined

_SHOWN_STEPS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50)
_PLANES = ("blue", "vermilion", "green", "orange", "purple", "sky", "grey", "ink")


def frames(imagined: Imagined) -> Figure:
    """Two rows per example, real above predicted; one column per step after the start."""
    steps = [t for t in _SHOWN_STEPS if t < imagined.real.shape[1]]
    examples = len(imagined.real)
    cell = (style.WIDTH - 0.6) / len(steps)
    height = examples * (2 * cell + 0.12) + 0.3
    figure = Figure(figsize=(style.WIDTH, height))
    for example in range(examples):
        for row, (name, shown) in enumerate(
            (("real", imagined.real), ("model", imagined.predicted))
        ):
            top = height - 0.25 - example * (2 * cell + 0.12) - (row + 1) * cell
            for column, t in enumerate(steps):
                place = (0.55 + column * cell, top, cell * 0.94, cell * 0.94)
                axes = figure.add_axes(tuple(np.divide(place, (style.WIDTH, height) * 2)))
                _frame(axes, shown[example, t], imagined.has_planes, t <= imagined.lengths[example])
                if example == row == 0:
                    axes.set_title(f"{t}", fontsize=7, color=style.MUTED, pad=2)
                if column == 0:
                    axes.set_ylabel(name, fontsize=7, rotation=0, ha="right", va="center")
    return figure


def _frame(axes: Axes, frame: NDArray[np.uint8], has_planes: bool, has_happened: bool) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    if not has_happened:  # the real episode ended before
        axes.set_facecolor(style.RULE)
    elif has_planes:
        axes.imshow(coloured(frame))
    else:
        axes.imshow(frame[-1], cmap="gray", vmin=0, vmax=255)


def coloured(planes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """One colour per plane, later planes above earlier ones: [C, H, W] -> [H, W, 3]"""
    picture = np.ones((*planes.shape[1:], 3))
    for index, plane in enumerate(planes):
        hue = style.PALETTE[_PLANES[index % len(_PLANES)]]
        rgb = [int(hue[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        picture[plane > 0] = rgb
    return picture


def errors(imagined: Imagined) -> Figure:
    """Errors over the number of steps that were predicted without a look at reality."""
    figure = Figure(figsize=(style.WIDTH, 2.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    horizon = np.arange(1, len(imagined.accuracy) + 1)[imagined.count > 0]
    known = imagined.count > 0
    right_share = imagined.overlap if imagined.has_planes else imagined.accuracy
    left.plot(horizon, 1 - right_share[known], color=style.PALETTE["blue"], lw=1.3, label="model")
    still = 1 - imagined.still[known]
    left.plot(horizon, still, color=style.MUTED, lw=1, ls=(0, (4, 2)), label="nothing moves")
    left.legend(frameon=False, fontsize=7)
    what = "Objects in the wrong place" if imagined.has_planes else "Wrong pixels"
    for axes, title in ((left, f"{what}, share"), (right, "Error of the reward")):
        style.title(axes, title)
        axes.set_ylim(bottom=0)
        axes.set_xlim(1, max(len(imagined.accuracy), 2))
        axes.set_xlabel("steps ahead", fontsize=7.5, labelpad=2)
    right.plot(horizon, imagined.reward_error[known], color=style.PALETTE["blue"], lw=1.3)
    return figure
