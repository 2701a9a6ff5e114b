"""What refinement found, in task.json, and its weights in a safetensors file beside it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from visr.config import Bound
from visr.errors import UserError
from visr.storage import new_files, schema
from visr.storage.files import read_checked_arrays, write_tensors

_NAME = re.compile(r"[^/\\]+\.[0-9a-f]{16}\.safetensors")
_LARGEST = 2**30


@dataclass(frozen=True, eq=False)
class Refinement:
    """A correction of psi . w for one task, and how far to trust it."""

    run_steps: schema.Count
    """Steps of the run whose psi it corrects."""
    num_updates: schema.Count
    source: Annotated[str, Bound(0, 2_000)]
    """Where the recorded steps come from."""
    num_steps: schema.Count
    """Recorded steps."""
    num_rewarded: schema.Count
    """Recorded steps whose reward is not the most common one."""
    given: float
    """Estimated discounted reward per step of the policy that was given, on held-out episodes."""
    value: float
    """The same of the refined policy."""
    gain: float
    gain_error: float
    """Standard error of the gain over held-out episodes."""
    held_out_steps: schema.Count
    matching_steps: schema.Count
    """Held-out steps with the refined policy's action: the effective sample size of the estimate."""
    changed: float
    """Share of held-out states where it acts otherwise than the given policy."""
    is_done: bool
    """Whether more updates were unlikely to help."""
    reward_r_squared: float | None = None
    """How well a learned reward model predicted held-out rewards; None if the reward is known exactly."""
    file: str = ""
    """The name of the file of weights, beside task.json."""
    learner_file: str = ""
    """The name of the learner's file beside it, from which --resume continues; "" without one."""
    weights: dict[str, NDArray] = field(default_factory=dict, metadata=schema.NOT_STORED)
    learner: dict[str, NDArray] = field(default_factory=dict, metadata=schema.NOT_STORED)
    """The networks that learn and their optimiser's state."""
    learner_place: Path | None = field(default=None, metadata=schema.NOT_STORED)
    """Where they are kept; read by `learner_state`."""

    @property
    def is_refined(self) -> bool:
        """Whether a better policy was found."""
        return bool(self.weights)

    def saved_beside(self, path: Path) -> Refinement:
        """Write the weights and the learner beside path, under names of their content."""
        return replace(
            self,
            file=_saved(path, self.weights),
            learner_file=_saved(path, self.learner) if self.learner else "",
        )

    def loaded_from(self, path: Path) -> Refinement:
        """Read the weights beside path; a UserError if they are missing or damaged."""
        place = path.with_name(self.learner_file) if self.learner_file else None
        if not all(map(_NAME.fullmatch, (self.file, self.learner_file or self.file))):
            raise ValueError("its file of weights has no proper name")
        return replace(self, weights=_loaded(path.with_name(self.file), path), learner_place=place)

    def learner_state(self) -> dict[str, NDArray]:
        """The networks that learn and their optimiser's state; empty if they were not kept."""
        if self.learner or self.learner_place is None:
            return self.learner
        return _loaded(self.learner_place, self.learner_place)


def _saved(path: Path, tensors: dict[str, NDArray]) -> str:
    """The name of the file, beside path."""
    content = safetensors.numpy.save({k: np.array(v, order="C") for k, v in tensors.items()})
    name = f"{path.stem}.{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    write_tensors(path.with_name(name), content)
    return name


def _loaded(place: Path, of: Path) -> dict[str, NDArray]:
    """The tensors of a file of weights that belongs to the task `of`."""
    remedy = "refine the task again"
    try:
        if place.stat().st_size > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST:,} bytes")
        return read_checked_arrays(place)[0]
    except FileNotFoundError:
        raise UserError(f"{place}, the weights of {of}, is missing; {remedy}.") from None
    except (OSError, safetensors.SafetensorError, ValueError) as error:
        raise UserError(f"{place} is damaged ({error}); {remedy}.") from None


def remove_others(path: Path, kept: Refinement | None) -> None:
    """Remove files of weights of earlier tasks with the same name."""
    names = () if kept is None else (kept.file, kept.learner_file)
    for other in path.parent.glob("*.safetensors"):
        is_of_task = _NAME.fullmatch(other.name) and other.name.startswith(f"{path.stem}.")
        if (
            is_of_task
            and other.name.count(".") == path.stem.count(".") + 2
            and other.name not in names
        ):
            new_files.remove(other)
