"""visr report: a run as figures and one HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from visr.commands import options, output


@dataclass(frozen=True)
class Options:
    """Draw a run from its directory alone: PNGs, and one HTML page that opens without a network."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a run."""
    out: str | None = None
    """Where to write; by default report/ inside the run."""
    json: bool = False
    """Print the headline numbers as one JSON object."""


def run(args: list[str]) -> int:
    """Write the report and say where it is."""
    chosen = options.parse(Options, args, "report")
    from visr import report

    summary = report.write(Path(chosen.run), Path(chosen.out) if chosen.out else None)
    if chosen.json:
        output.emit(summary)
    else:
        print(summary["page"])
    return 0
