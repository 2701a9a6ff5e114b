"""Mathematics without state; here: independent seeds derived from one seed."""

from __future__ import annotations

import numpy as np


def derived_seed(*words: int) -> int:
    """A seed for one purpose, from a run's seed, a number for the purpose, and a counter.

    It has 32 bits because PyTorch's generator uses no more: s and s + 2**32 give the same draws.
    """
    return int(np.random.SeedSequence(words).generate_state(1)[0])
