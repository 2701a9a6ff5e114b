"""What a fine-tuned run tells of itself: finetuned.json, read without trust."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visr.errors import UserError
from visr.storage.files import read_json


@dataclass(frozen=True)
class Tuned:
    """What psi was worth before and after, on the one reward it was tuned on."""

    task: str
    from_scratch: bool
    num_free_steps: int
    is_exact: bool
    """A fraction of the optimum; else a mean raw score."""
    before: float
    after: float | None
    """None until it is finished."""


def read(path: Path) -> Tuned:
    """The file, or a UserError that says what is wrong with it."""
    content = read_json(path)
    try:
        is_exact = "fraction_of_optimal" in content["before"]
        after = content["after"]
        return Tuned(
            task=str(content["task"]),
            from_scratch=bool(content["from_scratch"]),
            num_free_steps=int(content.get("num_free_steps", 0)),
            is_exact=is_exact,
            before=_worth(content["before"], is_exact),
            after=None if after is None else _worth(after, is_exact),
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is damaged ({error}); restore it from a copy, or fine-tune anew."
        ) from None


def _worth(told: dict[str, Any], is_exact: bool) -> float:
    worth = float(told["fraction_of_optimal" if is_exact else "mean"])
    if not math.isfinite(worth):
        raise ValueError("a worth is not a finite number")
    return worth
