"""The matrix products of one round on the grid: the limit of its training loop."""

from __future__ import annotations

from itertools import pairwise

import torch

from visr.bench.meter import Job
from visr.config import RunConfig
from visr.envs.grid.world import NUM_ACTIONS, GridWorld
from visr.training.actor_pool import group_sizes

Product = tuple[int, tuple[int, ...], tuple[int, ...]]
"""How often, and the shapes of the two factors."""


def matrix_products(config: RunConfig) -> Job:
    """The matrix products of one round of the loop."""
    shapes = _acting(config) + _learning(config)
    products = [(times, torch.randn(left), torch.randn(right)) for times, left, right in shapes]
    steps = config.training.num_envs * config.training.unroll_length

    @torch.inference_mode()
    def job() -> int:
        for times, left, right in products:
            for _ in range(times):
                torch.matmul(left, right)
        return steps

    return job


def _acting(config: RunConfig) -> list[Product]:
    """Every step: w's part, the hidden layers, the readout; once an unroll: w folded into the readout."""
    agent, length, products = config.agent, config.training.unroll_length, []
    num_policies = 1 + agent.gpi_samples if agent.gpi else 1
    d, sizes = agent.num_features, agent.hidden_sizes
    for group in group_sizes(config):
        products.append((1, (group, d), (d, NUM_ACTIONS * sizes[-1])))
        products += _layers(length, group * num_policies, (d, *sizes))
        products.append((length, (group, num_policies, sizes[-1]), (group, sizes[-1], NUM_ACTIONS)))
    return products


def _learning(config: RunConfig) -> list[Product]:
    """Per update: psi on the unrolls (forward again for a target network), phi on all states."""
    agent, training = config.agent, config.training
    updates = training.num_envs // training.batch_size
    rows = (training.unroll_length + 1) * training.batch_size
    num_states = GridWorld.from_config(config.grid).num_states
    psi = _layers(updates, rows, (*agent.hidden_sizes, NUM_ACTIONS * agent.num_features))
    phi = _layers(updates, min(rows, num_states), (*agent.hidden_sizes, agent.num_features))
    forward = psi if agent.target_period == 1 else [*psi, *psi]
    trained = [*psi, *phi] if agent.features == "learned" else psi
    to_input = [(updates, (a, c), (c, b)) for _, (a, b), (_, c) in trained]
    to_weights = [(updates, (b, a), (a, c)) for _, (a, b), (_, c) in trained]
    return [*forward, *phi, *to_input, *to_weights]


def _layers(times: int, rows: int, sizes: tuple[int, ...]) -> list[Product]:
    return [(times, (rows, a), (a, b)) for a, b in pairwise(sizes)]
