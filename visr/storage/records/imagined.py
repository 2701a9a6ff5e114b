"""imagined.safetensors: real steps beside a model's predictions of them, and its errors by horizon."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visr.storage import schema
from visr.storage.files import read_arrays, reading, write_arrays

_MOST = 10_000
"""The longest side of an array."""
_MOST_EXAMPLES = 16
"""All are drawn."""


@dataclass(frozen=True, eq=False)
class Imagined:
    """Open-loop rollouts of a world model: a real start and the real actions, then only predictions.

    An array by horizon has one number for each step after the start. Of real episodes that end earlier,
    only the steps that happened are counted.
    """

    real: NDArray[np.uint8]
    """[K, T + 1, C, H, W]: frames of K examples; entry 0 is the start"""
    predicted: NDArray[np.uint8]
    """[K, T + 1, C, H, W]: the same, predicted; entry 0 is the same"""
    lengths: NDArray[np.int64]
    """[K]: steps after which each example's real episode ended, at most T"""
    accuracy: NDArray[np.float64]
    """[T]: share of all cells or pixels that are predicted exactly"""
    overlap: NDArray[np.float64]
    """[T]: cells that are set in both, divided by cells that are set in either; planes only, else zeros"""
    still: NDArray[np.float64]
    """[T]: the overlap (for pixels the accuracy) if nothing moved after the start"""
    reward_error: NDArray[np.float64]
    """[T]: mean distance between predicted and real reward; after a predicted end it is 0"""
    count: NDArray[np.float64]
    """[T]: real steps behind each number"""

    @property
    def has_planes(self) -> bool:
        """Whether frames are planes of zeros and ones."""
        return bool(self.real.max(initial=0) <= 1)

    def save(self, path: Path) -> None:
        """Write imagined.safetensors."""
        write_arrays(path, self)

    @classmethod
    def load(cls, path: Path) -> Imagined:
        """Read imagined.safetensors; damage is a UserError."""
        remedy = "move it away and report again to do without its pictures"
        with reading(path), schema.refusing(f"{path} is damaged", remedy):
            return cls(**_checked(read_arrays(path)))


def _checked(arrays: dict[str, NDArray]) -> dict[str, NDArray]:
    names = tuple(Imagined.__dataclass_fields__)
    for name in names:
        if name not in arrays:
            raise ValueError(f"{name} is missing")
    frames, length = arrays["real"], len(np.atleast_1d(arrays["accuracy"]))
    is_long = frames.ndim == 5 and (len(frames) > _MOST_EXAMPLES or max(frames.shape) > _MOST)
    if frames.ndim != 5 or min(frames.shape) < 1 or is_long:
        raise ValueError(f"real has shape {frames.shape}")
    if frames.shape != arrays["predicted"].shape or frames.shape[1] != length + 1:
        raise ValueError("its arrays do not fit each other")
    lengths = arrays["lengths"]
    if lengths.shape != frames.shape[:1] or lengths.dtype != np.int64:
        raise ValueError("lengths is not a list of counts")
    for name in ("real", "predicted"):
        if arrays[name].dtype != np.uint8:
            raise ValueError(f"{name} does not hold bytes")
    for name in ("accuracy", "overlap", "still", "reward_error", "count"):
        if arrays[name].shape != (length,) or arrays[name].dtype != np.float64:
            raise ValueError(f"{name} is not a list of {length} numbers")
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} holds NaN or infinity")
    return {name: arrays[name] for name in names}
