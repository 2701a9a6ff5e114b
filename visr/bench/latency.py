"""How long an answer takes: a task, an action, a refinement, a start."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import visr
from visr import working_directory
from visr.bench.meter import Job, compared, rate, take_turns
from visr.finetuning.offline_q import BATCH
from visr.inference.compare_methods import compare_methods
from visr.inference.steps import RewardedSteps
from visr.networks.residual_values import ResidualValues
from visr.run import Run

STEPS = 100_000
_EPISODE = 200
"""Steps of an episode."""
GRID, MINATAR, CARTPOLE = "grid", "minatar-breakout", "cartpole"


def infer(seconds: float) -> dict[str, Any]:
    """w from 100,000 steps by every method, against one pass of the same regression: z^T z and a solve."""
    return {f"d = {d}": _infer(d, seconds / 2) for d in (5, 128)}


def steps_of(d: int, num_steps: int) -> RewardedSteps:
    """Steps with Gaussian features and a noisy linear reward."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((num_steps, d), dtype=np.float32)
    reward = features @ rng.standard_normal(d) + rng.standard_normal(num_steps)
    return RewardedSteps(features, reward, np.arange(num_steps) // _EPISODE)


def _infer(d: int, seconds: float) -> dict[str, Any]:
    steps = steps_of(d, STEPS)

    def ours() -> int:
        compare_methods(steps)
        return 1

    def limit() -> int:
        z = np.column_stack([steps.features, steps.reward])
        parts = np.array_split(z, len(z) // _EPISODE)
        moments = np.sum([part.T @ part for part in parts], axis=0)
        np.linalg.solve(moments[:-1, :-1], moments[:-1, -1])
        return 1

    turns = take_turns({"infer": ours, "regression": limit}, seconds)
    many = steps_of(d, 4 * STEPS)
    return {
        **compared(turns["infer"], turns["regression"], "cpu", "tasks"),
        "seconds": 1 / rate(turns["infer"], "cpu"),
        "memory_mb": peak_mb(lambda: compare_methods(steps)),
        "memory_mb_of_four_times_the_steps": peak_mb(lambda: compare_methods(many)),
    }


def peak_mb(work: Callable[[], object]) -> float:
    """The most memory that numpy and Python allocate in `work`."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def policy(seconds: float) -> dict[str, Any]:
    """One action for one observation by `run.policy(task)`, against psi's passes; and by ONNX Runtime."""
    return {name: _policy(name, seconds / 2) for name in (GRID, MINATAR)}


def _policy(model: str, seconds: float) -> dict[str, Any]:
    run, (task, seen) = visr.load(f"pretrained:{model}"), _task_and_observation(model)
    chosen = run.infer(task)
    act, agent = run.policy(chosen), run.agent
    batch = torch.as_tensor(np.asarray(seen)[None])
    w = torch.as_tensor(chosen.w, dtype=torch.float32)[None]
    policies, readout = agent.sample_policies(w, None), agent.readout(w)

    def passes() -> int:
        with torch.inference_mode():
            agent.psi.gpi_values(agent.psi.first_step(batch), policies, readout)
        return 1

    def ours() -> int:
        act(seen)
        return 1

    jobs: dict[str, Job] = {"policy": ours, "passes": passes}
    with tempfile.TemporaryDirectory() as directory, suppress(ImportError):
        jobs["onnx"] = _onnx(run.export(chosen, Path(directory) / "policy.onnx", gpi=True), batch)
    turns = take_turns(jobs, seconds)
    found = compared(turns["policy"], turns["passes"], "cpu", "actions")
    times = {name: 1000 / rate(turns[name], "cpu") for name in jobs}
    return {**found, **{f"{name}_milliseconds": time for name, time in times.items()}}


def _onnx(path: Path, batch: torch.Tensor) -> Job:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path.read_bytes(), options)
    inputs = {session.get_inputs()[0].name: batch.numpy()}

    def act() -> int:
        session.run(None, inputs)
        return 1

    return act


def _task_and_observation(model: str) -> tuple[str, Any]:
    if model == GRID:
        return "boxes:7", 42
    planes = np.zeros((4, 10, 10), np.uint8)
    planes[0, 9, 4] = planes[1, 5, 5] = planes[3, 1, :] = 1
    return "env", planes


def refine(seconds: float) -> dict[str, Any]:
    """Updates of `run.refine` on CartPole with all that it estimates, against the network's passes alone."""
    run: Run = visr.load(f"pretrained:{CARTPOLE}")
    task, network = run.infer("-abs(x0 - 1)"), ResidualValues(run.agent.spec, 1)
    rows = torch.randn(BATCH, *(run.agent.spec.observation_space.shape or ()))
    action = torch.zeros(BATCH, 1, dtype=torch.int64)

    def ours() -> int:
        refined = run.refine(task, num_updates=_UPDATES).refinement
        assert refined is not None
        return refined.num_updates

    def passes() -> int:
        for _ in range(_UPDATES):
            with torch.no_grad():
                y = network(rows)[:, 0].amax(dim=1)
            functional.mse_loss(network(rows)[:, 0].gather(1, action)[:, 0], y).backward()
            network.zero_grad(set_to_none=True)
        return _UPDATES

    turns = take_turns({"refine": ours, "passes": passes}, seconds)
    return compared(turns["refine"], turns["passes"], "cpu", "updates")


_UPDATES = 200


# ---- start-up

_COMMANDS = {
    "help": ["-m", "visr", "--help"],
    "import": ["-c", "import visr"],
    "training": ["-m", "visr", "pretrain", "--preset", "smoke", "--num-steps", "1"],
    "python": ["-c", "pass"],
    "libraries": ["-c", "import torch, gymnasium"],
}
_LIMITS = {"help": "python", "import": "python", "training": "libraries"}
"""What no command can be faster than."""


def start(seconds: float) -> dict[str, Any]:
    """Whole processes against Python alone; `training` is a whole run of one round, against its libraries."""
    with tempfile.TemporaryDirectory() as directory:
        jobs = {name: partial(_process, name, Path(directory)) for name in _COMMANDS}
        turns = take_turns(jobs, seconds)
    found = {}
    for name, limit in _LIMITS.items():
        numbers = compared(turns[name], turns[limit], "cpu", "starts")
        found[name] = {"seconds": 1 / rate(turns[name], "cpu"), **numbers}
    return found


def _process(name: str, directory: Path) -> int:
    out = []
    if name == "training":
        out = ["--out", str(directory / str(len(list(directory.iterdir()))))]
    command = [sys.executable, *_COMMANDS[name], *out]
    environment = working_directory.child_environment()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return 1
