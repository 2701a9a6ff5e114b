"""visr export: a task's policy as an ONNX file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from visr.commands import options, output
from visr.commands.evaluate import task_file
from visr.errors import UserError
from visr.storage.records.task import Task


@dataclass(frozen=True)
class Options:
    """Write the greedy policy of a task as an ONNX file (needs visr[export])."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a pre-trained run."""
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A task's name in the run, or a task.json."""
    out: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.onnx")]
    """Where to write."""
    policy: Literal["own", "gpi"] = "own"
    """w's own greedy policy, or GPI over w and neighbours that are drawn once and kept."""
    seed: int = 0
    """Decides the neighbours."""
    json: bool = False
    """Print the result as one JSON object."""


def run(args: list[str]) -> int:
    """Export and say how to call it."""
    chosen = options.parse(Options, args, "export")
    if Path(chosen.out).suffix.lower() != ".onnx":
        raise UserError(f"{chosen.out!r} is no name of an ONNX file; give one such as policy.onnx.")
    if not 0 <= chosen.seed < 2**31:
        raise UserError(f"seed = {chosen.seed} must lie between 0 and {2**31 - 1}.")
    from visr import api

    loaded = api.load(chosen.run, device="cpu")
    task = Task.load(task_file(loaded, chosen.task))
    path = loaded.export(task, chosen.out, gpi=chosen.policy == "gpi", seed=chosen.seed)
    inputs = {"observation": ["N", *(loaded.agent.spec.observation_space.shape or ())]}
    if size := loaded.agent.psi.memory_size:
        inputs |= {"previous_action": ["N"], "memory": ["N", size]}
    if chosen.json:
        output.emit({"file": str(path), "inputs": inputs, "size": path.stat().st_size})
        return 0
    rows = [("file", f"{path} ({path.stat().st_size / 1e6:.2f} MB)")]
    rows += [(f"input {name}", f"[{', '.join(map(str, shape))}]") for name, shape in inputs.items()]
    rows += [("output action", "[N]")]
    output.table(f"task: {task.name}", rows)
    return 0
