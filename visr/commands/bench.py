"""visr bench: speed as a ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from visr.commands import options, output
from visr.errors import UserError


@dataclass(frozen=True)
class Options:
    """Measure the full training loop, and in the same process the bare cost of its matrix products."""

    what: Annotated[Literal["grid"], tyro.conf.Positional] = "grid"
    """Which loop."""
    preset: str = "grid"
    """Whose networks and batches."""
    seconds: float = 20.0
    """About how long to measure."""
    json: bool = False
    """Print the result as one JSON object."""


def run(args: list[str]) -> int:
    """Measure and print."""
    chosen = options.parse(Options, args, "bench")
    if not 0 < chosen.seconds < math.inf:
        raise UserError(f"seconds = {chosen.seconds} must be a finite number greater than 0.")
    from visr.bench import grid

    result = grid.measure(chosen.preset, chosen.seconds)
    if chosen.json:
        output.emit(result)
        return 0
    rows = [
        (name.replace("_", " "), f"{value:,.3g}" if value < 100 else f"{value:,.0f}")
        for name, value in result.items()
    ]
    output.table(f"visr bench grid, preset {chosen.preset}", rows)
    return 0
