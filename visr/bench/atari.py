"""The training loop on an Atari game against the bare passes of its image torsos."""

from __future__ import annotations

import time
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from visr import config as configuration
from visr import envs
from visr.bench.loops import ENDLESS, random_play, training_loop
from visr.bench.meter import Clock, Job, Say, compared, peak_memory_mb, rate, take_turns
from visr.config import RunConfig, presets
from visr.training import devices
from visr.training.loop import Loop, new_agent

_ALONE: dict[str, Any] = {**ENDLESS, "num_processes": 1, "num_actor_groups": 1}
_BATCH_SIZES = (16, 32, 41, 64, 82, 128, 164)


def atari(preset: str, env: str, num_envs: int, seconds: float, say: Say) -> dict[str, Any]:
    """The loop against its torso passes; and the games alone, which play in threads of their own.

    The limit is the time of the torso passes that a step needs: forward for acting and for the target
    network, forward and backward for psi and phi, each in the quickest way found on this machine, of images
    that are converted to numbers already: the learner converts each image once for all its passes.
    """
    config = configuration.replace(presets.get(preset), env=env, num_envs=num_envs, **_ALONE)
    learns_phi, has_target = config.agent.features == "learned", config.agent.target_period > 1
    counts = {"forward": 1 + has_target + (not learns_phi), "forward_backward": 1 + learns_phi}
    num_threads = devices.num_threads(config.training)
    clock: Clock = "cpu" if num_threads == 1 else "wall"
    games = envs.make_vec(config, num_envs, seed=0)
    with training_loop(Loop(config)) as train:
        say(f"Warming up: {num_envs} environments, batches of {config.training.batch_size}.")
        train()
        peak_mb = peak_memory_mb()
        say("Looking for the best batch size, number format and layout of the torso passes.")
        best = {kind: fastest_pass(config, kind == "forward_backward") for kind in counts}
        passes = {kind: job for kind, (job, _) in best.items()}
        play = random_play(games, config.training.unroll_length)
        warm_mb = peak_memory_mb()
        turns = take_turns({"loop": train, **passes, "games": play}, seconds, say)
        growth_mb = peak_memory_mb() - warm_mb
    return {
        **compared(turns["loop"], turns.sum(counts), clock),
        "environment_steps_per_second": rate(turns["games"], "wall"),
        "limit_passes_per_step": counts,
        "limit_passes_per_second": {kind: rate(turns[kind], clock) for kind in counts},
        **{
            f"limit_{name}": {kind: how[name] for kind, (_, how) in best.items()}
            for name in ("batch_size", "precision", "channels_last")
        },
        "peak_memory_mb": peak_mb,
        "memory_growth_mb": growth_mb,
        "env": env,
        "num_envs": num_envs,
        "batch_size": config.training.batch_size,
        "num_threads": num_threads,
    }


def fastest_pass(config: RunConfig, backward: bool) -> tuple[Job, dict[str, Any]]:
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
            job = partial(_pass, torso, torso.prepared(image), backward)
            job()
            seconds = min(_elapsed(job) for _ in range(3))
            found.append((seconds / size, job, {**how, "batch_size": size}))
    _, job, how = min(found, key=lambda one: one[0])
    return job, how


def _elapsed(job: Job) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def _pass(torso: nn.Module, pixels: Tensor, backward: bool) -> int:
    torso.zero_grad(set_to_none=True)
    with torch.inference_mode(not backward):
        hidden = torso(pixels)
        if backward:
            hidden.backward(torch.ones_like(hidden))
    if pixels.is_cuda:
        torch.cuda.synchronize(pixels.device)
    return len(pixels)
