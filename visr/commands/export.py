"""visr export: a task's policy as an ONNX file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from visr.commands import options, output
from visr.errors import UserError
from visr.run_files import find_task
from visr.storage.records.task import Task


@dataclass(frozen=True)
class Options:
    """Write the greedy policy of a task as an ONNX file (needs visr[export])."""

    run: options.Run
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """Name of a task in the run, or a task.json."""
    out: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.onnx")]
    """The file to write."""
    policy: Literal["own", "gpi"] = "own"
    """The policy of w alone, or GPI over w and neighbours that are drawn once."""
    seed: int = 0
    """Random seed of the neighbours."""
    json: options.Json = False


def run(args: list[str]) -> int:
    """Export, and list the inputs of the file."""
    chosen = options.parse(Options, args, "export")
    if Path(chosen.out).suffix.lower() != ".onnx":
        raise UserError(
            f"{chosen.out!r} is not the name of an ONNX file; give one such as policy.onnx."
        )
    options.check_range(chosen, ("seed",), 0)
    from visr import api

    loaded = api.load(chosen.run, device="cpu")
    task = Task.load(find_task(loaded.directory, chosen.task))
    path = loaded.export(task, chosen.out, gpi=chosen.policy == "gpi", seed=chosen.seed)
    inputs = {"observation": ["N", *(loaded.agent.spec.observation_space.shape or ())]}
    if size := loaded.agent.psi.memory_size:
        inputs |= {"previous_action": ["N"], "memory": ["N", size]}
    num_bytes = path.stat().st_size
    rows = [
        ("file", f"{path} ({num_bytes / 1e6:.2f} MB)"),
        *((f"input {name}", f"[{', '.join(map(str, n))}]") for name, n in inputs.items()),
        ("output action", "[N]"),
    ]
    result = {"file": str(path), "inputs": inputs, "size": num_bytes}
    output.show(result, chosen.json, f"task: {task.name}", rows)
    return 0
