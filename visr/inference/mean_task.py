"""The task of forward-backward agents: the direction of the mean of r B."""

from __future__ import annotations

import numpy as np

from visr.inference import block_sums
from visr.inference.search import Found
from visr.inference.steps import Floats
from visr.ops.regression import RewardSums

MEAN = "mean of r B"


def find(blocks: list[RewardSums]) -> Found | None:
    """z = E[r B] at unit length, without held-out blocks, and of resampled ones; None where it is 0."""
    w = _direction(block_sums.total(blocks))
    if not w.any():
        return None
    others, _ = block_sums.split(blocks)
    again = np.array([_direction(sums) for sums in block_sums.resampled(blocks)])
    return Found(MEAN, w, _direction(others), again)


def _direction(sums: RewardSums) -> Floats:
    cross = sums.moments[:-2, -2]
    length = float(np.linalg.norm(cross))
    return cross / length if length > 1e-12 else np.zeros_like(cross)
