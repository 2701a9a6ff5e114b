"""The training loops of the grid and of MinAtar against their networks and environments alone."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from visr import config as configuration
from visr import envs
from visr.agents.base import Agent
from visr.bench.meter import Job, Seconds, compared, rate, take_turns
from visr.config import RunConfig, presets
from visr.envs.grid.world import NUM_ACTIONS, GridWorld
from visr.storage.run_dir import RunDir
from visr.training import devices
from visr.training.actor_pool import group_sizes
from visr.training.driver import Trainer
from visr.training.learner import concatenate
from visr.training.loop import Loop
from visr.training.metrics import MetricsWriter
from visr.types import Unroll

ENDLESS: dict[str, Any] = {"num_steps": 10**12, "num_rewarded_envs": 0}
"""More steps than any measurement takes; rewarded environments feed no learner."""


@contextlib.contextmanager
def training_loop(loop: Trainer) -> Iterator[Job]:
    """A job that trains until the learner has used more steps, and logs as training does."""
    rounds, every = loop.rounds(), loop.config.training.log_every

    def train() -> int:
        before = now = loop.num_steps
        while now == before:
            latest = next(rounds)
            recorder.add(latest.metrics)
            now = loop.num_steps
            if now // every > before // every:
                recorder.write(now, latest.num_updates, loop.extra_rows())
        return now - before

    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        recorder = MetricsWriter(RunDir.create(f"{directory}/run", loop.config))
        for each in (recorder, loop, rounds):
            stack.enter_context(contextlib.closing(each))
        yield train


def random_play(env: VectorEnv, num_steps: int) -> Job:
    """Step the environments alone, with actions that were drawn before."""
    actions = [env.action_space.sample() for _ in range(num_steps)]

    def play() -> int:
        for action in actions:
            env.step(action)
        return num_steps * env.num_envs

    return play


def grid(preset: str, seconds: float) -> dict[str, Any]:
    """The loop on the grid against its matrix products, on as many threads as it has processes."""
    config = configuration.replace(presets.get(preset), **ENDLESS)
    num_threads, products = config.training.num_processes, matrix_products(config)
    worlds = envs.make_vec(config, config.training.num_envs // num_threads, seed=0)
    with (
        training_loop(Loop(config)) as train,
        ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):

        def multiply() -> int:
            return sum(pool.map(lambda _: products(), range(num_threads)))

        play = random_play(worlds, config.training.unroll_length)
        jobs = {"loop": train, "networks": multiply, "environments": play}
        turns = take_turns(jobs, seconds)
    # The other processes step their environments at the same time.
    limit = turns.sum({"networks": 1, "environments": 1 / num_threads})
    found = _with_limit(turns["loop"], turns["networks"], limit)
    environments = rate(turns["environments"], "cpu") * num_threads
    return {
        **found,
        "environment_steps_per_second": environments,
        "num_processes": num_threads,
    }


def _with_limit(ours: Seconds, networks: Seconds, limit: Seconds) -> dict[str, Any]:
    """Compared with the networks and the environments, and with the networks alone."""
    alone = compared(ours, networks, "cpu")
    return {**compared(ours, limit, "cpu"), "networks_ratio": alone["ratio"]}


def minatar(preset: str, env: str, seconds: float, num_processes: int = 1) -> dict[str, Any]:
    """The loop on a MinAtar game against its networks and its games alone, on as many cores."""
    training = presets.get(preset).training
    # A round is a whole number of updates.
    num_envs = max(training.num_envs // training.batch_size, 1) * training.batch_size
    # The first process only learns, and each other one acts for a group.
    shared = {"num_processes": num_processes, "num_actor_groups": max(num_processes - 1, 1)}
    config = configuration.replace(
        presets.get(preset), env=env, num_envs=num_envs, **ENDLESS, **shared
    )
    alone = configuration.replace(config, num_processes=1, num_actor_groups=1)
    games = envs.make_vec(config, num_envs, seed=0)
    one = Loop(alone)
    with training_loop(Loop(config)) as train, contextlib.closing(one):
        unroll = concatenate(one.actor_pools[0].collect())  # a copy, so that gradients can pass
        jobs = {
            "loop": train,
            "networks": network_passes(one.agent, config, unroll),
            "environments": random_play(games, training.unroll_length),
        }
        turns = take_turns(jobs, seconds)
    networks = turns.sum({"networks": 1 / num_processes})
    limit = turns.sum({"networks": 1 / num_processes, "environments": 1 / num_processes})
    games_rate, loop_rate = rate(turns["environments"], "cpu"), rate(turns["loop"], "cpu")
    return {
        **_with_limit(turns["loop"], networks, limit),
        "environment_steps_per_second": games_rate,
        "environment_share": loop_rate / games_rate,
        "env": env,
        "num_envs": num_envs,
        "num_threads": devices.num_threads(config.training),
        "num_processes": num_processes,
    }


def network_passes(agent: Agent, config: RunConfig, unroll: Unroll) -> Job:
    """One round's acting, losses and gradients on data that is there; no games and no optimiser."""
    length, num_envs, size = len(unroll.action), unroll.num_unrolls, config.training.batch_size
    w = agent.sample_tasks(num_envs, None)
    policies = agent.sample_policies(w, None)
    previous_action, memory = agent.psi.no_memory(num_envs)
    batches = [unroll.part(start, start + size) for start in range(0, num_envs, size)]

    def job() -> int:
        with torch.inference_mode():
            readout = agent.psi.fold(w)
            for t in range(length):
                hidden, _ = agent.psi.step(unroll.observation[t], previous_action, memory)
                agent.action_values(hidden, policies, readout).argmax(dim=-1)
        for batch in batches:
            losses = agent.losses(batch)
            (losses.psi + losses.phi).backward()
            agent.zero_grad()
        return length * num_envs

    return job


# ---- the matrix products of one round on the grid

Product = tuple[int, tuple[int, ...], tuple[int, ...]]
"""How often, and the shapes of the two factors."""


def matrix_products(config: RunConfig) -> Job:
    """The matrix products of one round of the loop, by `torch.matmul`."""
    shapes = _acting(config) + _learning(config)
    products = [(times, torch.randn(left), _factor(right)) for times, left, right in shapes]
    steps = config.training.num_envs * config.training.unroll_length

    @torch.inference_mode()
    def job() -> int:
        for times, left, right in products:
            for _ in range(times):
                torch.matmul(left, right)
        return steps

    return job


def _factor(shape: tuple[int, ...]) -> Tensor:
    """Stored as the networks store it, by outputs, which is also the quickest."""
    return torch.randn(*shape[:-2], shape[-1], shape[-2]).mT


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
