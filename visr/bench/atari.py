"""The Atari training loop against the bare cost of its torso passes, and against itself without tricks."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor, nn

from visr import config as configuration
from visr import envs
from visr.config import RunConfig, presets
from visr.storage.run_dir import RunDir
from visr.training import devices
from visr.training.actor_pool import spec_of
from visr.training.loop import Loop, new_agent
from visr.training.metrics import Recorder

_BATCH_SIZES = (16, 32, 41, 64, 82, 128, 164)
_FINALISTS = 3
_ALIKE = {"num_steps": 10**12, "num_rewarded_envs": 0, "num_processes": 1, "num_actor_groups": 1}
_PLAIN = {"precision": "float32", "channels_last": False, "micro_batch": 0}


@dataclass
class Meter:
    """A job that returns how many steps it did, and how quickly it has done them so far."""

    job: Callable[[], int]
    how: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    seconds: float = 0.0

    def turn(self) -> float:
        """Once more; how many seconds that took."""
        start = time.perf_counter()
        self.steps += self.job()
        self.seconds += (seconds := time.perf_counter() - start)
        return seconds

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds


def measure(
    preset: str, env: str, num_envs: int, seconds: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Steps per second of acting, learning and logging; of the torso passes alone; without our tricks.

    All take turns, so that a noisy machine slows them alike. None of the environments is a rewarded
    one, which would feed no learner: the loop's steps are those that the learner has consumed.
    """
    deadline = time.perf_counter() + seconds
    config = configuration.replace(presets.get(preset), env=env, num_envs=num_envs, **_ALIKE)
    plain_config, batch_size = configuration.replace(config, **_PLAIN), config.training.batch_size
    games = envs.make_vec(config, num_envs, seed=0)
    random_play = Meter(_random_play(games, config.training.unroll_length))
    with (
        tempfile.TemporaryDirectory() as directory,
        _loop_process(config, f"{directory}/full", keeps_freed_memory=True) as (learn, said),
        _loop_process(plain_config, f"{directory}/plain", keeps_freed_memory=False) as (plainly, _),
        _as_in_the_loop(config),
    ):
        for name, warm_up in (("the loop", learn), ("the loop without tricks", plainly)):
            say(f"Warming up {name}: {num_envs} environments, batches of {batch_size} unrolls.")
            warm_up()
        said.clear()
        say("Looking for the bare passes' best batch size, number format and layout.")
        full, plain, limit, num_turns = Meter(learn), Meter(plainly), Limit(config, games), 0
        while not num_turns or time.perf_counter() + 2 * plain.seconds / num_turns < deadline:
            share, num_turns = plain.turn() / 2, num_turns + 1
            for turn, of_share in ((full.turn, 1.0), (limit.turn, 1.0), (random_play.turn, 0.1)):
                _spend(share * of_share, turn)
            speeds = f"{full.rate:,.1f} steps/s of {limit.rate:,.1f}"
            say(f"Turn {num_turns}: {speeds}; {plain.rate:,.1f} without tricks.")
    return {
        "steps_per_second": full.rate,
        "limit_steps_per_second": limit.rate,
        "ratio": full.rate / limit.rate,
        "environment_steps_per_second": random_play.rate,
        "float32_default_layout_steps_per_second": plain.rate,
        "speedup": full.rate / plain.rate,
        **limit.choices(),
        "peak_memory_mb": said[-1]["peak_mb"],
        "memory_growth_mb": said[-1]["resident_mb"] - said[0]["resident_mb"],
        "env": env,
        "num_envs": num_envs,
        "batch_size": batch_size,
        "num_threads": devices.num_threads(config.training),
    }


def _spend(seconds: float, turn: Callable[[], object]) -> None:
    """One turn, and more of them while there is time."""
    end = time.perf_counter() + seconds
    turn()
    while time.perf_counter() < end:
        turn()


def _random_play(games: VectorEnv, length: int) -> Callable[[], int]:
    """The environments alone; actions are drawn beforehand."""
    actions = [games.action_space.sample() for _ in range(length)]

    def play() -> int:
        for action in actions:
            games.step(action)
        return length * games.num_envs

    return play


# ------------------------------------------------------------------ the limit


class Limit:
    """The torso passes that a step cannot do without, each as quick as this machine can make it.

    Forward: acting, and the target network if there is one. Forward and backward: psi and phi.
    """

    def __init__(self, config: RunConfig, games: VectorEnv) -> None:
        agent, learns_phi = config.agent, config.agent.features == "learned"
        forward = 1 + (agent.target_period > 1) + (not learns_phi)
        self._counts = {"forward": forward, "forward_backward": 1 + learns_phi}
        self._passes = {
            kind: _finalists(_passes(config, games, backward=kind == "forward_backward"))
            for kind in self._counts
        }

    def turn(self) -> None:
        """Once through for every finalist, so that all meet the same noise."""
        for candidate in chain(*self._passes.values()):
            candidate.turn()

    @property
    def rate(self) -> float:
        """Steps per second, if nothing else took time."""
        return 1 / sum(self._counts[kind] / best.rate for kind, best in self._best().items())

    def choices(self) -> dict[str, dict[str, Any]]:
        """What won for each kind of pass, and at what speed."""
        best = self._best()
        chosen = {
            f"limit_{name}": {kind: one.how[name] for kind, one in best.items()}
            for name in ("batch_size", "precision", "channels_last")
        }
        speeds = {kind: one.rate for kind, one in best.items()}
        return {"limit_passes_per_step": self._counts, "limit_passes_per_second": speeds, **chosen}

    def _best(self) -> dict[str, Meter]:
        return {k: max(passes, key=lambda one: one.rate) for k, passes in self._passes.items()}


def _passes(config: RunConfig, games: VectorEnv, backward: bool) -> Iterator[Meter]:
    """Every number format that the hardware multiplies, layout and batch size; the likely best first."""
    where, spec = devices.device(config.training.device), spec_of(games)
    quick = devices.precision("auto", where) == torch.bfloat16
    for precision in ("bfloat16", "float32") if quick else ("float32",):
        for channels_last in (True, False):
            how = {"precision": precision, "channels_last": channels_last}
            training = configuration.replace(config, **how).training
            torso: Any = devices.prepared(new_agent(config, spec), training).psi.torso
            for size in _BATCH_SIZES:
                shape = (size, *(spec.observation_space.shape or ()))
                image = torch.randint(256, shape, dtype=torch.uint8, device=where)
                yield Meter(partial(_through, torso, image, backward), {**how, "batch_size": size})


def _finalists(passes: Iterable[Meter]) -> list[Meter]:
    """The quickest few of a first look; what is hopeless at its first pass gets no second one."""
    seen: list[tuple[float, Meter]] = []
    for candidate in passes:
        size, first = candidate.how["batch_size"], candidate.turn()
        if not seen or first / size < 2 * min(seconds for seconds, _ in seen):
            seconds = min(candidate.turn() for _ in range(3))
            seen.append((seconds / size, candidate))
    best = sorted(seen, key=lambda look: look[0])[:_FINALISTS]
    return [Meter(one.job, one.how) for _, one in best]


def _through(torso: nn.Module, image: Tensor, backward: bool) -> int:
    torso.zero_grad(set_to_none=True)
    with torch.inference_mode(not backward):
        hidden = torso(image)
        if backward:
            hidden.backward(torch.ones_like(hidden))
    if image.is_cuda:
        torch.cuda.synchronize(image.device)
    return len(image)


@contextlib.contextmanager
def _as_in_the_loop(config: RunConfig) -> Iterator[None]:
    """For the bare passes: the loop's threads, and its way with memory and denormals."""
    num_threads = torch.get_num_threads()
    devices.keep_freed_memory()
    torch.set_num_threads(devices.num_threads(config.training))
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
        torch.set_flush_denormal(False)


# ------------------------------------------- a loop with a process of its own


@contextlib.contextmanager
def _loop_process(
    config: RunConfig, path: str, keeps_freed_memory: bool
) -> Iterator[tuple[Callable[[], int], list[dict[str, float]]]]:
    """A job that learns in a child, whose memory and C library are its own; and what it said of memory."""
    said: list[dict[str, float]] = []
    process = subprocess.Popen(
        [sys.executable, "-m", "visr.bench.atari"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
        start_new_session=True,  # signals are for the parent
    )

    def learn() -> int:
        _say(process.stdin, {})
        assert process.stdout is not None
        if not (answer := process.stdout.readline()):
            raise EOFError(f"exit code {process.wait()}")
        said.append(json.loads(answer))
        return int(said[-1]["num_steps"])

    try:
        order = {"path": path, "keeps_freed_memory": keeps_freed_memory}
        _say(process.stdin, {**order, "config": configuration.to_dict(config)})
        yield learn, said
    finally:
        process.kill()  # it has nothing to save
        process.communicate()


def _say(pipe: IO[str] | None, words: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # who listens for an answer will notice
        print(json.dumps(words), file=pipe, flush=True)


def serve(orders: IO[str], answers: IO[str]) -> None:
    """The child's life: the first line says which loop; at every other it learns, and says how much."""
    order = json.loads(orders.readline())
    if not order["keeps_freed_memory"]:
        devices.keep_freed_memory = lambda: None
    config = configuration.from_dict(order["config"])
    recorder, loop = Recorder(RunDir.create(order["path"], config)), Loop(config)
    rounds, every = loop.rounds(), config.training.log_every
    for _ in orders:
        before = now = loop.num_learned_steps
        while now == before:
            recorder.add(next(rounds).metrics)
            now = loop.num_learned_steps
        if now // every > before // every:
            recorder.write(now, loop.learner.num_updates)
        _say(answers, {"num_steps": now - before, **memory()})


def memory() -> dict[str, float]:
    """This process's resident memory, now and at its highest; without /proc, the highest for both."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    now = highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    with contextlib.suppress(OSError, KeyError):  # the above also knows what the parent had
        lines = Path("/proc/self/status").read_text().splitlines()
        sizes = {line.split()[0]: line.split()[1] for line in lines if line.startswith("Vm")}
        now, highest = int(sizes["VmRSS:"]) / 1024, int(sizes["VmHWM:"]) / 1024
    return {"resident_mb": now, "peak_mb": highest}


if __name__ == "__main__":
    # What environments print goes to stderr; the real stdout carries answers only.
    real_stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, real_stdout)
