"""Encode pictures: frames as PNG, films as one strip of frames, maps of a grid."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visr.api import Run
from visr.config import MINATAR, RunConfig
from visr.errors import UserError
from visr.play import rendering
from visr.play.rendering import Picture

_THUMBNAIL_WIDTH = 160
"""Width of a thumbnail in pixels."""


def screen_of(config: RunConfig) -> rendering.Screen | None:
    """The environment's renderer, or None if it has none."""
    try:
        return rendering.screen(config)
    except UserError:
        return None


def of_observation(observation: NDArray, run: Run) -> Picture:
    """An observed image as a picture, [C, H, W] -> [H, W, 3]; MinAtar's planes in colours."""
    if run.config.env.startswith(MINATAR):
        return rendering.screen(run.config).reset(observation[None], 0)
    planes = observation[:3] if len(observation) == 3 else np.repeat(observation[-1:], 3, axis=0)
    bright = planes.astype(np.float64) * (255 / max(float(planes.max()), 1))
    return bright.astype(np.uint8).transpose(1, 2, 0)


def png(picture: Picture, compress_level: int = 1) -> bytes:
    """[H, W, 3] -> a PNG file."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(file, "PNG", compress_level=compress_level)
    return file.getvalue()


def strip(frames: Sequence[Picture]) -> tuple[str, tuple[int, int]]:
    """A film as one data URI, its frames side by side, and the (width, height) of each."""
    small = [_thumbnail(frame) for frame in frames]
    joined = Image.fromarray(np.concatenate(small, axis=1))
    file = io.BytesIO()
    # 64 colours make the file several times smaller.
    joined.quantize(64, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    height, width, _ = small[0].shape
    return _data_uri(file.getvalue()), (width, height)


def _thumbnail(picture: Picture) -> Picture:
    height, width, _ = picture.shape
    if width <= _THUMBNAIL_WIDTH // 2:
        return picture
    scale = _THUMBNAIL_WIDTH / 2 / width if height > width else _THUMBNAIL_WIDTH / width
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))


def heat(values: NDArray[np.float64], free: NDArray[np.bool_]) -> str:
    """A data URI of a map in viridis, walls grey: values and free [height, width]; one pixel a cell."""
    import matplotlib

    low, high = values[free].min(), values[free].max()
    place = (values - low) / max(high - low, 1e-12)
    colours = matplotlib.colormaps["viridis"]((place * 255).astype(np.intp), bytes=True)
    return _data_uri(png(np.where(free[..., None], colours[..., :3], 128).astype(np.uint8), 9))


def _data_uri(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
