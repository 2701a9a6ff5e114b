"""One self-contained HTML page for many runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from visr.config import GRID
from visr.paper.suite.drawing import Drawing
from visr.paper.suite.read import LeftOut, RunSummary
from visr.paper.suite.table import Table
from visr.report import templating
from visr.report.figures import Picture


@dataclass(frozen=True)
class Section:
    """The part of the page about one suite."""

    key: str
    title: str
    words: str
    tables: tuple[Table, ...]
    more_tables: tuple[Table, ...]
    """Shown on a click."""
    figures: tuple[Drawing, ...]
    pictures: tuple[Picture, ...] = ()
    """Figures without a heading and without CSV."""


def html(
    root: Path, runs: Sequence[RunSummary], damaged: Sequence[LeftOut], sections: Sequence[Section]
) -> str:
    """The whole page; the same runs give the same page."""
    left_out = [(run.name, run.state) for run in runs if not run.has_score]
    left_out += [(each.name, each.sentence) for each in damaged]
    template = templating.environment("visr.paper.suite").get_template("suite.html")
    return template.render(
        title=root.resolve().name,
        runs=runs,
        left_out=left_out,
        num_damaged=len(damaged),
        has_grid=any(run.env == GRID for run in runs),
        sections=sections,
        command=shlex.join(["visr", "report", str(root)]),
    )
