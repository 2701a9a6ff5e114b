"""Save and restore everything a run needs to go on as if never stopped: one safetensors file, no pickle."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor, nn

from visr.errors import UserError
from visr.run_dir import FORMAT, RunDir, write_bytes
from visr.training.learner import within


def save(run: RunDir, tensors: dict[str, Tensor], counts: dict[str, int], num_steps: int) -> Path:
    """Write the checkpoint of that age, then let go of all but the last two."""
    path = run.checkpoint(num_steps)
    metadata = {"visr": json.dumps({"format": FORMAT, **counts}, sort_keys=True)}
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, safetensors.torch.save(plain, metadata=metadata))
    run.forget_old_checkpoints()
    return path


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, int]]:
    """Tensors and counts of a checkpoint; damage is a UserError."""
    try:
        with safetensors.safe_open(str(path), framework="pt") as file:
            counts = dict(json.loads((file.metadata() or {})["visr"]))
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is damaged or cut short ({error}); remove it to go on from the checkpoint before."
        ) from None
    if counts.pop("format", None) != FORMAT:
        raise UserError(f"{path} comes from another version of visr; use the one that wrote it.")
    return tensors, counts


def restore_agent(agent: nn.Module, path: Path) -> None:
    """Only the networks of a checkpoint, for acting."""
    tensors, _ = load(path)
    with fitting(path):
        agent.load_state_dict(within(tensors, "learner.agent."))


@contextlib.contextmanager
def fitting(path: Path) -> Iterator[None]:
    """Tensors of other names or shapes than the configuration asks for become a sentence."""
    try:
        yield
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        raise UserError(
            f"{path} does not fit its run's config.json; one of the two is from elsewhere."
        ) from None


def newest(run: RunDir) -> Path:
    """The latest finished checkpoint of a run."""
    checkpoints = run.checkpoints()
    if not checkpoints:
        raise UserError(
            f"{run.path} has no checkpoint yet; let it train longer, or start over elsewhere."
        )
    return checkpoints[-1]
