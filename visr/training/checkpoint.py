"""Save and restore everything a run needs to go on as if never stopped: one safetensors file, no pickle."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import safetensors
import safetensors.torch
from torch import Tensor, nn

from visr.errors import UserError
from visr.storage import checksums
from visr.storage.files import write_tensors
from visr.storage.run_dir import FORMAT, RunDir
from visr.training import diagnostics
from visr.training.learner import within

log = logging.getLogger("visr")


def save(run: RunDir, tensors: dict[str, Tensor], counts: dict[str, int], num_steps: int) -> Path:
    """Write the checkpoint of that age, if its weights are numbers; then let go of all but the last two."""
    diagnostics.refuse_broken(within(tensors, "learner."), num_steps)
    path = run.checkpoint(num_steps)
    metadata = {
        "visr": json.dumps({"format": FORMAT, **counts}, sort_keys=True),
        "tables": json.dumps(run.table_checksums(num_steps)),
    }
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_tensors(path, safetensors.torch.save(plain, metadata=metadata))
    run.forget_old_checkpoints()
    return path


class Damaged(UserError):
    """A checkpoint is not as it was written; the one before may be."""


class Sound(NamedTuple):
    """A checkpoint that was read whole."""

    path: Path
    tensors: dict[str, Tensor]
    counts: dict[str, int]


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, int]]:
    """Tensors and counts of a checkpoint; damage is a UserError."""
    try:
        checksums.check(path)
        with safetensors.safe_open(str(path), framework="pt") as file:
            counts = dict(json.loads((file.metadata() or {})["visr"]))
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except PermissionError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}; check its permissions.") from None
    except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{path} is damaged or cut short ({error})") from None
    if counts.pop("format", None) != FORMAT:
        raise UserError(f"{path} comes from another version of visr; use the one that wrote it.")
    if not all(type(count) is int and count >= 0 for count in counts.values()):
        raise Damaged(f"{path} is damaged: it counts {counts}")
    return tensors, counts


def tensors(path: Path, way_out: str) -> dict[str, Tensor]:
    """A sealed file of nothing but tensors; damage is a UserError that ends with the way out."""
    try:
        checksums.check(path)
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); {way_out}.") from None


def newest_sound(run: RunDir) -> Sound:
    """The newest checkpoint that is whole; damaged ones are passed over, loudly."""
    damage: list[Damaged] = []
    waiting = [newest(run), *reversed(run.checkpoints()[:-1])]
    while waiting:
        path = waiting.pop(0)
        try:
            sound = Sound(path, *load(path))
        except Damaged as error:
            if not os.path.lexists(path):  # training has gone on meanwhile, and let go of it
                return newest_sound(run)
            damage.append(error)
            continue
        for error in damage:
            log.warning("visr: %s; going on from step %s instead.", error, f"{int(path.stem):,}")
        return sound
    raise UserError(
        f"No checkpoint of {run.path} is whole: {'; '.join(map(str, damage))}; restore one from a copy, "
        "or start anew in another directory."
    )


def warn_of_changed_tables(run: RunDir, path: Path) -> None:
    """Training is unharmed by a changed row, but curves are not: say so."""
    for table in run.changed_tables(path):
        log.warning(
            "visr: %s is not as it was written up to step %s: a row was changed or lost; restore it from "
            "a copy if you have one.",
            table,
            f"{int(path.stem):,}",
        )


def restore_agent(agent: nn.Module, run: RunDir) -> int:
    """Only the networks, for acting, of the newest checkpoint that is whole; returns its age."""
    sound = newest_sound(run)
    with fitting(sound.path):
        agent.load_state_dict(within(sound.tensors, "learner.agent."))
    return int(sound.path.stem)


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
