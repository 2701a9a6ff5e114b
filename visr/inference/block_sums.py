"""Sums of blocks of episodes: held out, or resampled."""

from __future__ import annotations

import numpy as np

from visr.ops.regression import RewardSums

_HELD_OUT = 4
"""Every fourth block of episodes is held out."""
_NUM_RESAMPLES, FEWER_RESAMPLES, _MANY_FEATURES = 200, 50, 64
"""With many features each resample takes long."""


def split(blocks: list[RewardSums]) -> tuple[RewardSums, RewardSums]:
    """Sums of the blocks to fit on and of those held out; a single block is both."""
    if len(blocks) == 1:
        return blocks[0], blocks[0]
    step = min(_HELD_OUT, len(blocks))
    others = [block for index, block in enumerate(blocks) if index % step != step - 1]
    return total(others), total(blocks[step - 1 :: step])


def total(blocks: list[RewardSums]) -> RewardSums:
    """Their sum."""
    return sum(blocks[1:], blocks[0])


def resampled(blocks: list[RewardSums], count: int | None = None) -> list[RewardSums]:
    """Bootstrap: sums of as many blocks, drawn with replacement; fewer of many features."""
    if count is None:
        is_large = blocks[0].num_features > _MANY_FEATURES
        count = FEWER_RESAMPLES if is_large else _NUM_RESAMPLES
    moments = np.stack([block.moments for block in blocks])
    rewarded = np.array([block.num_rewarded for block in blocks])
    size = (count, len(blocks))
    totals = []
    for draw in np.random.default_rng(0).integers(len(blocks), size=size):
        counts = np.bincount(draw, minlength=len(blocks))
        drawn = RewardSums(blocks[0].num_features)
        drawn.moments = np.tensordot(counts.astype(np.float64), moments, axes=1)
        drawn.num_rewarded = int(counts @ rewarded)
        totals.append(drawn)
    return totals
