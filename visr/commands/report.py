"""visr report: a run, or many, as tables, figures and one HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from visr.commands import options, output
from visr.errors import UserError
from visr.storage import pretrained_models


@dataclass(frozen=True)
class Options:
    """Draw from directories alone: PNGs, and one HTML page that opens without a network.

    A directory that holds runs becomes one report over all of them: the paper's tables with ours beside the
    published figures, its Figure 2, learning curves, intervals and profiles, each with its data.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Directory of a run, or of many at any depth, such as results/ or what `visr reproduce` made."""
    out: str | None = None
    """Where to write; by default report/ inside the directory."""
    json: bool = False
    """Print the headline numbers, of many runs the aggregates, as one JSON object."""


def run(args: list[str]) -> int:
    """Write the report and say where it is."""
    chosen = options.parse(Options, args, "report")
    if not chosen.run:  # such as an unset variable's: the working directory was hardly meant
        raise UserError(
            "The directory's name is empty; name a run, or . for the directory you are in."
        )
    if pretrained_models.is_model(chosen.run):
        raise UserError(
            f"{chosen.run} comes without the record of its training, so there is nothing to draw; "
            f"`visr evaluate {chosen.run}` plays it, `visr explore {chosen.run}` shows its skills."
        )
    from visr import report

    summary = report.write(Path(chosen.run), Path(chosen.out) if chosen.out else None)
    if chosen.json:
        output.emit(summary)
    else:
        print(summary["page"])
    return 0
