"""What one page watches or drives: its frames become a goal or a demonstration."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from visr.errors import UserError

_MAX_STEPS = 5_000
_MAX_BYTES = 2**26
"""64 MB: 2,300 screens of Atari."""

Steps = deque[tuple[NDArray, int, NDArray]]
"""State, action, next state, as networks take them."""


class Watched:
    """The states and actions of the latest episode; beyond the limits the earliest are dropped."""

    def __init__(self) -> None:
        self._steps, self._previous, self.state = Steps(), Steps(), np.zeros(0)

    def begin(self, state: NDArray) -> None:
        """Start an episode; the one before counts until this one has a step."""
        most = max(min(_MAX_STEPS, _MAX_BYTES // max(state.nbytes, 1)), 1)
        self._previous = self._steps or self._previous
        self._steps = Steps(maxlen=most)
        self.state = np.array(state)
        """On the screen now."""

    def add(self, action: int, state: NDArray) -> None:
        """One step."""
        before, self.state = self.state, np.array(state)
        self._steps.append((before, action, self.state))

    def trajectory(self) -> tuple[NDArray, NDArray[np.int64]]:
        """States [T + 1, ...] and the actions taken in all but the last, [T]."""
        steps = list(self._steps or self._previous)
        if not steps:
            raise UserError("Nothing was played yet; press Play or an action first.")
        states = [before for before, _, _ in steps]
        return np.stack([*states, steps[-1][2]]), np.array([a for _, a, _ in steps], np.int64)
