"""visr report: figures and one HTML page from one run or from many."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from visr.commands import options, output
from visr.errors import UserError
from visr.storage import packed_models


@dataclass(frozen=True)
class Options:
    """Write PNG figures and one HTML page that needs no network.

    A directory that holds many runs gives one report over all of them: the paper's tables with our scores
    beside the published ones, its Figure 2, learning curves, intervals and profiles, each with its data.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Directory of a run, or of many at any depth, such as results/ or the output of `visr reproduce`."""
    out: str | None = None
    """Where to write; by default report/ inside the directory."""
    json: bool = False
    """Print the main numbers, for many runs the aggregates, as one JSON object."""


def run(args: list[str]) -> int:
    """Write the report and print its path."""
    chosen = options.parse(Options, args, "report")
    if not chosen.run:  # probably an unset shell variable, not the working directory
        raise UserError(
            "The directory's name is empty; name a run, or . for the current directory."
        )
    if packed_models.is_packed(chosen.run):
        raise UserError(
            f"{chosen.run} has no training record, so there is nothing to draw; "
            f"`visr evaluate {chosen.run}` plays it, `visr explore {chosen.run}` shows its skills."
        )
    from visr import report

    summary = report.write(Path(chosen.run), Path(chosen.out) if chosen.out else None)
    output.show(summary, chosen.json, path=summary["page"])
    return 0
