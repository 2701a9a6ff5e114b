"""The arrays behind the paper's figures of the grid world, computed from an agent's networks."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from visr.agents.visr import Visr
from visr.evaluation import grid_benchmark
from visr.ops import sphere
from visr.storage.records.grid_snapshot import GridSnapshot

NUM_TASKS = 49
NUM_POLICIES = 10
_SEED = 49


def draw(agent: Visr, exact: grid_benchmark.Evaluator) -> GridSnapshot:
    """phi [S, d]; for 49 random w the rewards phi . w and the GPI values over 10 uniform policies [49, S]."""
    world = exact.world
    phi = grid_benchmark.features(agent, world)
    random = torch.Generator().manual_seed(_SEED)
    w = sphere.uniform(NUM_TASKS, d=phi.shape[1], generator=random)
    policies = sphere.uniform(NUM_POLICIES, d=phi.shape[1], generator=random)
    return GridSnapshot(
        phi=phi,
        free=world.free.reshape(world.height, world.width),
        rewards=w.numpy().astype(np.float64) @ phi.T,
        values=_gpi_values(agent, w, policies, world.num_states),
    )


@torch.inference_mode()
def _gpi_values(agent: Visr, w: torch.Tensor, policies: torch.Tensor, num_states: int) -> NDArray:
    """V(s) = max_a max_i psi(s, a, w_i) . w for every w [K, d] -> [K, S]."""
    tasks = w.to(agent.device).repeat_interleave(num_states, dim=0)
    states = torch.arange(num_states, device=agent.device).repeat(len(w))
    consulted = policies.to(agent.device).expand(len(tasks), *policies.shape)
    values = agent.psi.gpi_values(agent.psi.first_step(states), consulted, agent.psi.fold(tasks))
    return values.amax(dim=-1).view(len(w), num_states).cpu().numpy().astype(np.float64)
