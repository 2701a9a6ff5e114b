"""Speed of the training loop, as a fraction of what its networks alone would reach on this machine."""

from __future__ import annotations

import contextlib
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise, product
from statistics import median
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from visr import config as configuration
from visr import envs
from visr.agents.base import Agent
from visr.config import RunConfig, presets
from visr.envs.grid.world import NUM_ACTIONS, GridWorld
from visr.storage.run_dir import RunDir
from visr.training import devices
from visr.training.actor_pool import group_sizes
from visr.training.driver import Trainer
from visr.training.learner import concatenate
from visr.training.loop import Loop, new_agent
from visr.training.metrics import MetricsWriter
from visr.types import Unroll

Job = Callable[[], int]
"""Do some work; return how many environment steps it stands for."""
Say = Callable[[str], None]

_NUM_TURNS = 5
_STEPS = {"num_steps": 10**12}  # more than any measurement takes
_ALONE = {**_STEPS, "num_rewarded_envs": 0, "num_processes": 1, "num_actor_groups": 1}
_PLAIN = {"precision": "float32", "channels_last": False, "micro_batch": 0}
_BATCH_SIZES = (16, 32, 41, 64, 82, 128, 164)


def take_turns(
    jobs: Mapping[str, Job], seconds: float, say: Say | None = None
) -> dict[str, NDArray]:
    """Steps per second of each job in each turn: arrays [turns].

    The jobs alternate, so that noise on the machine slows all of them alike; each runs at least once a turn.
    """
    start, share = time.perf_counter(), seconds / _NUM_TURNS / len(jobs)
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(1, _NUM_TURNS + 1):
        begin = time.perf_counter()
        for name, job in jobs.items():
            rates[name].append(_rate(job, share))
        if say:
            speeds = ", ".join(f"{name} {rate[-1]:,.1f}" for name, rate in rates.items())
            say(f"Turn {turn}: {speeds} steps/s.")
        now = time.perf_counter()
        if now + (now - begin) / 2 > start + seconds:
            break
    return {name: np.array(rate) for name, rate in rates.items()}


def warm_up(jobs: Mapping[str, Job]) -> None:
    """Call each job once: the first call allocates memory and loads code."""
    for job in jobs.values():
        job()


def _rate(job: Job, seconds: float) -> float:
    """Steps per second of a job that is repeated for that long, and run at least once."""
    start, steps = time.perf_counter(), job()
    while time.perf_counter() - start < seconds:
        steps += job()
    return steps / (time.perf_counter() - start)


def compared(loop: NDArray, limit: NDArray) -> dict[str, Any]:
    """Medians over turns of both speeds and of their ratio, and the ratio's range."""
    ratio = loop / limit
    return {
        "steps_per_second": median(loop),
        "limit_steps_per_second": median(limit),
        "ratio": median(ratio),
        "ratio_range": [float(ratio.min()), float(ratio.max())],
    }


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
    """The loop on the grid against its matrix products, forward and backward, on as many threads."""
    config = configuration.replace(presets.get(preset), **_STEPS)
    num_threads, products = config.training.num_processes, matrix_products(config)
    with (
        training_loop(Loop(config)) as train,
        ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):

        def multiply() -> int:
            return sum(pool.map(lambda _: products(), range(num_threads)))

        jobs = {"loop": train, "products": multiply}
        warm_up(jobs)
        rates = take_turns(jobs, seconds)
    return {**compared(rates["loop"], rates["products"]), "num_processes": num_threads}


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


def minatar(preset: str, env: str, seconds: float) -> dict[str, Any]:
    """The loop on a MinAtar game against its networks alone, and the games alone."""
    training = presets.get(preset).training
    # A round is a whole number of updates.
    num_envs = max(training.num_envs // training.batch_size, 1) * training.batch_size
    config = configuration.replace(presets.get(preset), env=env, num_envs=num_envs, **_ALONE)
    games = envs.make_vec(config, num_envs, seed=0)
    loop = Loop(config)
    with training_loop(loop) as train:
        unroll = concatenate(loop.actor_pools[0].collect())  # a copy, so that gradients can pass
        jobs = {
            "loop": train,
            "networks": network_passes(loop.agent, config, unroll),
            "games": random_play(games, config.training.unroll_length),
        }
        warm_up(jobs)
        rates = take_turns(jobs, seconds)
    return {
        **compared(rates["loop"], rates["networks"]),
        "environment_steps_per_second": median(rates["games"]),
        "environment_share": median(rates["loop"] / rates["games"]),
        "env": env,
        "num_envs": num_envs,
        "num_threads": devices.num_threads(config.training),
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


def atari(preset: str, env: str, num_envs: int, seconds: float, say: Say) -> dict[str, Any]:
    """The loop on an Atari game against its torso passes, the loop in float32, and the games alone.

    The limit is the time of the torso passes that a step needs: forward for acting and for the target
    network, forward and backward for psi and phi, each in the quickest way found on this machine.
    """
    config = configuration.replace(presets.get(preset), env=env, num_envs=num_envs, **_ALONE)
    plain = configuration.replace(config, **_PLAIN)
    learns_phi, has_target = config.agent.features == "learned", config.agent.target_period > 1
    counts = {"forward": 1 + has_target + (not learns_phi), "forward_backward": 1 + learns_phi}
    games = envs.make_vec(config, num_envs, seed=0)
    with training_loop(Loop(config)) as train, training_loop(Loop(plain)) as train_plainly:
        say(f"Warming up: {num_envs} environments, batches of {config.training.batch_size}.")
        train()
        peak_mb = peak_memory_mb()
        say("Looking for the best batch size, number format and layout of the torso passes.")
        best = {kind: fastest_pass(config, games, kind == "forward_backward") for kind in counts}
        jobs = {
            "loop": train,
            "float32": train_plainly,
            **{kind: job for kind, (job, _) in best.items()},
            "games": random_play(games, config.training.unroll_length),
        }
        warm_up(jobs)
        warm_mb = peak_memory_mb()
        rates = take_turns(jobs, seconds, say)
        growth_mb = peak_memory_mb() - warm_mb
    limit = 1 / np.sum([count / rates[kind] for kind, count in counts.items()], axis=0)
    return {
        **compared(rates["loop"], limit),
        "environment_steps_per_second": median(rates["games"]),
        "float32_default_layout_steps_per_second": median(rates["float32"]),
        "speedup": median(rates["loop"] / rates["float32"]),
        "limit_passes_per_step": counts,
        "limit_passes_per_second": {kind: median(rates[kind]) for kind in counts},
        **{
            f"limit_{name}": {kind: how[name] for kind, (_, how) in best.items()}
            for name in ("batch_size", "precision", "channels_last")
        },
        "peak_memory_mb": peak_mb,
        "memory_growth_mb": growth_mb,
        "env": env,
        "num_envs": num_envs,
        "batch_size": config.training.batch_size,
        "num_threads": devices.num_threads(config.training),
    }


def fastest_pass(config: RunConfig, games: VectorEnv, backward: bool) -> tuple[Job, dict[str, Any]]:
    """The quickest number format, layout and batch size for one pass of images through psi's torso."""
    where, spec = devices.device(config.training.device), envs.spec(config)
    has_bfloat16 = devices.precision("auto", where) == torch.bfloat16
    found, formats = [], ("bfloat16", "float32") if has_bfloat16 else ("float32",)
    for precision, channels_last in product(formats, (True, False)):
        how: dict[str, Any] = {"precision": precision, "channels_last": channels_last}
        training = configuration.replace(config, **how).training
        torso: Any = devices.prepared(new_agent(config), training).psi.torso
        for size in _BATCH_SIZES:
            shape = (size, *(spec.observation_space.shape or ()))
            image = torch.randint(256, shape, dtype=torch.uint8, device=where)
            job = partial(_pass, torso, image, backward)
            rate = max(_rate(job, 0) for _ in range(3))
            found.append((rate, job, {**how, "batch_size": size}))
    _, job, how = max(found, key=lambda one: one[0])
    return job, how


def _pass(torso: nn.Module, image: Tensor, backward: bool) -> int:
    torso.zero_grad(set_to_none=True)
    with torch.inference_mode(not backward):
        hidden = torso(image)
        if backward:
            hidden.backward(torch.ones_like(hidden))
    if image.is_cuda:
        torch.cuda.synchronize(image.device)
    return len(image)


def peak_memory_mb() -> float:
    """The largest resident memory of this process so far."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
