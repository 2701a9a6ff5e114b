"""Finished Rainbow runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from visr import envs
from visr.config import RunConfig
from visr.errors import UserError
from visr.paper.baselines.rainbow.agent import greedy, new_network
from visr.storage.run_dir import RunDir
from visr.training import checkpoint
from visr.training.actor_pool import spec_of
from visr.training.learner import within


def load(run: RunDir, config: RunConfig) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
    """A finished run's greedy policy, without noise, and its number of actions; only tensors are read."""
    finished = run.checkpoint(config.training.num_steps)
    if not finished.exists():
        raise UserError(f"{run.path} has not finished its training; train it to the end first.")
    env = envs.make_vec(config, 1)
    network = new_network(config, spec_of(env)).eval()
    env.close()
    tensors, _ = checkpoint.load(finished)
    with checkpoint.refuse_mismatch(finished):
        network.load_state_dict(within(tensors, "learner.network."))
    return lambda observation: greedy(network, observation), network.num_actions
