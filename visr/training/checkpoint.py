"""Checkpoints: all that a run needs to continue identically, in one safetensors file; nothing is pickled."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from visr import strict_json, terminal
from visr.agents.base import BehaviourModel
from visr.errors import UserError, short_repr
from visr.storage import schema
from visr.storage.files import read_checked_tensors, write_tensors
from visr.storage.packed_models import PackedModel
from visr.storage.run_dir import FORMAT, RunDir
from visr.training.learner import within

log = terminal.logger()

_ELSEWHERE = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "check its permissions"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE, errno.ENOMEM), "end other programs and try again"),
}
"""Errors that say nothing about the file, and what to do about them."""


def save(run: RunDir, tensors: dict[str, Tensor], counts: dict[str, int], num_steps: int) -> Path:
    """Write a checkpoint whose weights are finite, then delete all but the newest two."""
    refuse_non_finite(within(tensors, "learner."), num_steps)
    path = run.checkpoint(num_steps)
    metadata = {
        "visr": json.dumps({"format": FORMAT, **counts}, sort_keys=True),
        "tables": json.dumps(run.table_checksums(num_steps)),
    }
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_tensors(path, safetensors.torch.save(plain, metadata=metadata))
    run.remove_old_checkpoints()
    return path


def refuse_non_finite(tensors: Mapping[str, Tensor], num_steps: int) -> None:
    """Refuse to save a checkpoint that contains NaN or inf."""
    for name, tensor in tensors.items():
        if not _is_finite(tensor):
            raise UserError(diverged(num_steps, name, "not finite"))


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def diverged(num_steps: int, name: str, value: str) -> str:
    """The sentence for metrics or weights that are not finite."""
    return (
        f"Training diverged before step {num_steps:,}: {name} is {value}; "
        "the last checkpoint is kept, so start again with lower learning rates."
    )


class Damaged(UserError):
    """A checkpoint differs from what was written; the one before may be intact."""


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, int]]:
    """Tensors and counts of a checkpoint; damage is a UserError."""
    try:
        tensors, metadata = read_checked_tensors(path)
        content = strict_json.parse(metadata["visr"])
        counts = schema.convert(content, dict[str, schema.Count], "visr")
    except OSError as error:
        if error.errno not in _ELSEWHERE:
            raise Damaged(f"{path} is damaged or cut short ({error})") from None
        raise UserError(
            f"Cannot read {path}: {error.strerror}; {_ELSEWHERE[error.errno]}."
        ) from None
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{path} is damaged or cut short ({error})") from None
    if counts.pop("format", None) != FORMAT:
        raise UserError(f"{path} comes from another version of visr; use the one that wrote it.")
    try:
        _require_finite(within(tensors, "learner."))
    except ValueError as error:
        raise Damaged(f"{path} is damaged ({error})") from None
    return tensors, counts


def weights(path: Path) -> dict[str, Tensor]:
    """The weights of a baseline; damage is an OSError, a SafetensorError or a ValueError."""
    tensors, _ = read_checked_tensors(path)
    _require_finite(tensors)
    return tensors


def _require_finite(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not _is_finite(tensor):
            raise ValueError(f"{short_repr(name)} holds NaN or infinity")


def newest_intact(run: RunDir) -> tuple[Path, dict[str, Tensor], dict[str, int]]:
    """Path, tensors and counts of the newest intact checkpoint; each damaged one is logged."""
    damage: list[Damaged] = []
    candidates = [newest(run), *reversed(run.checkpoints()[:-1])]
    for path in candidates:
        try:
            tensors, counts = load(path)
        except Damaged as error:
            if not os.path.lexists(path):  # a training process has deleted it meanwhile
                return newest_intact(run)
            damage.append(error)
            continue
        for error in damage:
            log.warning("visr: %s; going on from step %s instead.", error, f"{int(path.stem):,}")
        return path, tensors, counts
    raise UserError(
        f"No checkpoint of {run.path} is whole: {'; '.join(map(str, damage))}; restore one from a copy, "
        "or start again in another directory."
    )


def newest(run: RunDir) -> Path:
    """The newest checkpoint of a run."""
    checkpoints = run.checkpoints()
    if not checkpoints:
        raise UserError(
            f"{run.path} has no checkpoint yet; let it train longer, or start over elsewhere."
        )
    return checkpoints[-1]


@dataclass(frozen=True)
class Restored:
    """The weights that an agent was given."""

    num_steps: int
    """Steps that trained them: of pre-training, or of fine-tuning in a fine-tuned run."""
    damaged: Path | None = None
    """The newest checkpoint, if it could not be read and an older one was used."""

    def require_newest(self) -> None:
        """Refuse an older agent as the start of fine-tuning: its result would stay."""
        if self.damaged is not None:
            raise UserError(
                f"Fine-tuning does not start from the older step {self.num_steps:,}; first write "
                f"{self.damaged} again with `visr pretrain --resume {self.damaged.parents[1]}`."
            )


def restore(agent: nn.Module, run: RunDir, model: PackedModel | None = None) -> Restored:
    """Load only the networks, for acting: of the newest intact checkpoint, or of a packed model."""
    if model is not None:
        return Restored(_restore_packed(agent, model))
    wanted = newest(run)
    path, tensors, _ = newest_intact(run)
    with refuse_mismatch(path):
        agent.load_state_dict(within(tensors, "learner.agent."))
    return Restored(int(path.stem), wanted if int(path.stem) < int(wanted.stem) else None)


def _restore_packed(agent: nn.Module, model: PackedModel) -> int:
    if not isinstance(agent, BehaviourModel):
        raise UserError(f"{model.path} is not a packed model (its agent infers no tasks).")
    tensors = model.weights()
    with refuse_mismatch(model.path):
        agent.load_packed(tensors)
    return model.card.num_steps


@contextlib.contextmanager
def refuse_mismatch(path: Path) -> Iterator[None]:
    """Turn errors about tensors of other names or shapes than the configuration's into a UserError."""
    try:
        yield
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        raise UserError(
            f"{path} does not fit its run's config.json; one of the two is from elsewhere."
        ) from None


def warn_of_changed_tables(run: RunDir, path: Path) -> None:
    """Warn if rows before this checkpoint were changed: training can continue, but curves are wrong."""
    for table in run.changed_tables(path):
        log.warning(
            "visr: %s is not as it was written up to step %s: a row was changed or lost; restore it from "
            "a copy if you have one.",
            table,
            f"{int(path.stem):,}",
        )
