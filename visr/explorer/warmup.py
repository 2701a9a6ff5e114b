"""Warm up late imports and kernels, so that the first painted reward is as fast as the others."""

from __future__ import annotations

import numpy as np
import torch

from visr.api import Run
from visr.explorer import painting


def warm_up(run: Run) -> None:
    """Infer and evaluate one arbitrary reward."""
    torch.set_num_threads(1)  # small networks are slower with several threads
    if not painting.is_paintable(run) or run.world is None or run.world.free.sum() < 2:
        return
    reward = np.zeros(run.world.num_states)
    reward[np.flatnonzero(run.world.free)[0]] = 1.0
    painting.evaluate(run, painting.infer(run, reward), gpi=True)
