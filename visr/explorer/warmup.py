"""The first stroke shall be as quick as the others: what is imported or compiled late happens now."""

from __future__ import annotations

import numpy as np
import torch

from visr.api import Run
from visr.explorer import painting


def up(run: Run) -> None:
    """Infer and judge a reward that nobody asked for."""
    torch.set_num_threads(1)  # networks this small lose more by waking threads than they gain
    if not painting.can_be_painted(run) or run.world is None or run.world.free.sum() < 2:
        return
    reward = np.zeros(run.world.num_states)
    reward[np.flatnonzero(run.world.free)[0]] = 1.0
    painting.judge(run, painting.infer(run, reward), gpi=True)
