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
    weights: dict[str, NDArray] = field(default_factory=dict, metadata=schema.NOT_STORED)

    @property
    def is_refined(self) -> bool:
        """Whether a better policy was found."""
        return bool(self.weights)

    def saved_beside(self, path: Path) -> Refinement:
        """Write the weights beside path, under a name of their content."""
        plain = {name: np.array(array, order="C") for name, array in self.weights.items()}
        content = safetensors.numpy.save(plain)
        digest = hashlib.sha256(content).hexdigest()[:16]
        name = f"{path.stem}.{digest}.safetensors"
        write_tensors(path.with_name(name), content)
        return replace(self, file=name)

    def loaded_from(self, path: Path) -> Refinement:
        """Read the weights beside path; a UserError if they are missing or damaged."""
        if not _NAME.fullmatch(self.file):
            raise ValueError("its file of weights has no proper name")
        place, remedy = path.with_name(self.file), "refine the task again"
        try:
            if place.stat().st_size > _LARGEST:
                raise ValueError(f"it is larger than {_LARGEST:,} bytes")
            weights, _ = read_checked_arrays(place)
        except FileNotFoundError:
            raise UserError(f"{place}, the weights of {path}, is missing; {remedy}.") from None
        except (OSError, safetensors.SafetensorError, ValueError) as error:
            raise UserError(f"{place} is damaged ({error}); {remedy}.") from None
        return replace(self, weights=weights)


def remove_others(path: Path, kept: str) -> None:
    """Remove files of weights of earlier tasks with the same name."""
    for other in path.parent.glob("*.safetensors"):
        is_of_task = _NAME.fullmatch(other.name) and other.name.startswith(f"{path.stem}.")
        if is_of_task and other.name.count(".") == path.stem.count(".") + 2 and other.name != kept:
            new_files.remove(other)
