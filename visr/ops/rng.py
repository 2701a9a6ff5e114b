"""Seeds that follow from one another and share no draws."""

from __future__ import annotations

import numpy as np


def derived(*words: int) -> int:
    """A seed for one purpose: of a run's seed, what it is for, and how many came before.

    It has 32 bits, as PyTorch's generator looks at no more of a seed: s and s + 2**32 give the same draws.
    """
    return int(np.random.SeedSequence(words).generate_state(1)[0])
