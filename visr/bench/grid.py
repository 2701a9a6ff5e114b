"""The grid's full training loop against the bare cost of its matrix products."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch
from torch import Tensor

from visr import config as configuration
from visr.bench import training
from visr.config import RunConfig, presets
from visr.envs.grid.world import NUM_ACTIONS, GridWorld
from visr.training.actor_pool import group_sizes

_TURNS = 5
_ENDLESS = 10**12


def measure(preset: str, seconds: float) -> dict[str, float]:
    """Steps per second of acting, learning and logging; of the matrix products alone; their ratio.

    The two take turns, so that a noisy machine slows both. The limit runs the loop's own products,
    forward and backward, on as many threads as the loop uses, shared out perfectly.
    """
    config = configuration.replace(presets.get(preset), num_steps=_ENDLESS)
    with training.warm(config) as (_, train):
        full, limit = _take_turns(train, matrix_products(config), config, seconds / _TURNS / 2)
    return {
        "steps_per_second": full,
        "limit_steps_per_second": limit,
        "ratio": full / limit,
        "num_processes": config.training.num_processes,
    }


def _take_turns(
    train: Callable[[], int], products: Callable[[], int], config: RunConfig, seconds: float
) -> tuple[float, float]:
    threads = config.training.num_processes
    steps, spent = [0, 0], [0.0, 0.0]
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:

        def bare() -> int:
            return sum(pool.map(lambda _: products(), range(threads)))

        bare()
        for _ in range(_TURNS):
            for index, job in enumerate((train, bare)):
                start = time.perf_counter()
                while time.perf_counter() - start < seconds:
                    steps[index] += job()
                spent[index] += time.perf_counter() - start
    return steps[0] / spent[0], steps[1] / spent[1]


def matrix_products(config: RunConfig) -> Callable[[], int]:
    """A job that multiplies what one round of the loop multiplies, and returns the round's steps."""
    products = _acting(config) + _learning(config)
    steps = config.training.num_envs * config.training.unroll_length

    @torch.inference_mode()
    def job() -> int:
        for repeat, left, right in products:
            for _ in range(repeat):
                torch.matmul(left, right)
        return steps

    return job


Product = tuple[int, Tensor, Tensor]


def _acting(config: RunConfig) -> list[Product]:
    """Every step: w's part, the hidden layers, the readout; once an unroll: w folded into the readout."""
    agent, training = config.agent, config.training
    policies = 1 + agent.gpi_samples if agent.gpi else 1
    d, sizes, products = agent.num_features, agent.hidden_sizes, []
    for group in group_sizes(config):
        shapes = _layers(group * policies, (d, *sizes))
        products.append((1, torch.randn(group, d), torch.randn(d, NUM_ACTIONS * sizes[-1])))
        products += [
            (training.unroll_length, torch.randn(a, b), torch.randn(b, c)) for a, b, c in shapes
        ]
        readout = (
            torch.randn(group, policies, sizes[-1]),
            torch.randn(group, sizes[-1], NUM_ACTIONS),
        )
        products.append((training.unroll_length, *readout))
    return products


def _learning(config: RunConfig) -> list[Product]:
    """Per update: psi on the unrolls (forward again for a target network), phi on all states."""
    agent, training = config.agent, config.training
    updates = training.num_envs // training.batch_size
    rows = (training.unroll_length + 1) * training.batch_size
    num_states = GridWorld.from_config(config.grid).num_states
    psi = _layers(rows, (*agent.hidden_sizes, NUM_ACTIONS * agent.num_features))
    phi = _layers(min(rows, num_states), (*agent.hidden_sizes, agent.num_features))
    forward = psi if agent.target_period == 1 else [*psi, *psi]
    trained = [*psi, *phi] if agent.features == "learned" else psi
    backward = [s for a, b, c in trained for s in ((a, c, b), (b, a, c))]
    shapes = [*forward, *phi, *backward]
    return [(updates, torch.randn(a, b), torch.randn(b, c)) for a, b, c in shapes]


def _layers(rows: int, sizes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    return [(rows, a, b) for a, b in pairwise(sizes)]
