"""The MinAtar training loop against the bare cost of its networks, and the games alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from visr import config as configuration
from visr import envs
from visr.agents.registry import Agent
from visr.agents.visr import draw_policies
from visr.bench import training
from visr.config import RunConfig, presets
from visr.ops import sphere
from visr.training import devices
from visr.training.batch_queue import joined
from visr.types import Unroll

_TURNS = 5
_ALIKE = {"num_steps": 10**12, "num_rewarded_envs": 0, "num_processes": 1, "num_actor_groups": 1}


def measure(preset: str, env: str, seconds: float) -> dict[str, Any]:
    """Steps per second of the whole loop; of its networks alone; of the games alone.

    The networks alone: acting with all neighbours, the losses and their gradients, on data that is there
    already; no game, no optimiser, no bookkeeping. All three take turns, so that noise slows them alike.
    """
    config = configuration.replace(presets.get(preset), env=env, **_ALIKE)
    # Whole rounds: as many environments as unrolls in a few updates.
    wanted, batch_size = config.training.num_envs, config.training.batch_size
    num_envs = max(wanted // batch_size, 1) * batch_size
    config = configuration.replace(config, num_envs=num_envs)
    with training.warm(config) as (loop, train):
        unroll = joined(loop.crews[0].collect())  # copies, which gradients may pass
        assert unroll is not None
        jobs = (train, _networks(loop.agent, config, unroll), _games(config))
        rates = _take_turns(jobs, seconds / _TURNS / len(jobs))
    full, limit, games = rates
    return {
        "steps_per_second": full,
        "limit_steps_per_second": limit,
        "ratio": full / limit,
        "environment_steps_per_second": games,
        "environment_share": full / games,
        "env": env,
        "num_envs": num_envs,
        "num_threads": devices.num_threads(config.training),
    }


def _take_turns(jobs: tuple[Callable[[], int], ...], seconds: float) -> list[float]:
    steps, spent = [0] * len(jobs), [0.0] * len(jobs)
    for _ in range(_TURNS):
        for index, job in enumerate(jobs):
            start = time.perf_counter()
            while time.perf_counter() - start < seconds or not steps[index]:
                steps[index] += job()
            spent[index] += time.perf_counter() - start
    return [count / time_spent for count, time_spent in zip(steps, spent, strict=True)]


def _networks(agent: Agent, config: RunConfig, unroll: Unroll) -> Callable[[], int]:
    """A round's passes: 40 steps of acting, then the gradients of every update."""
    length, num_envs, size = len(unroll.action), unroll.num_unrolls, config.training.batch_size
    w = sphere.uniform(num_envs, d=config.agent.num_features)
    policies = draw_policies(config.agent, w, None)
    previous_action, memory = agent.psi.no_memory(num_envs)
    batches = [unroll.part(start, start + size) for start in range(0, num_envs, size)]

    def job() -> int:
        with torch.inference_mode():
            readout = agent.psi.fold(w)
            for t in range(length):
                hidden, _ = agent.psi.step(unroll.observation[t], previous_action, memory)
                agent.psi.gpi_values(hidden, policies, readout).argmax(dim=-1)
        for batch in batches:
            losses = agent.losses(batch)
            (losses.psi + losses.phi).backward()
            agent.zero_grad()
        return length * num_envs

    return job


def _games(config: RunConfig) -> Callable[[], int]:
    env = envs.make_vec(config, config.training.num_envs, seed=0)
    actions = [env.action_space.sample() for _ in range(config.training.unroll_length)]

    def job() -> int:
        for action in actions:
            env.step(action)
        return len(actions) * env.num_envs

    return job
