"""What the generated pages share: rows of results/, Markdown tables, numbers within a page."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from visr.paper.suite.tables import Table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PLACE = Path(__file__).parent / "results"
NOTE = "<!-- Written by `make results` from results/. Edit docs/results_pages.py instead. -->"
DASH = "–"
Rows = Sequence[Sequence[str]]
Csv = list[dict[str, str]]


def read(path: str) -> Csv:
    """The rows of a CSV file below results/."""
    with (RESULTS / path).open(newline="") as file:
        return list(csv.DictReader(file))


def read_if_there(path: str) -> Csv:
    """The rows of a CSV file; none before its experiment was run."""
    return read(path) if (RESULTS / path).exists() else []


def by(rows: Csv, *columns: str) -> dict[tuple[str, ...], Csv]:
    """Rows with the same values in these columns, in the order in which they appear."""
    found: dict[tuple[str, ...], Csv] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in columns), []).append(row)
    return found


def table(columns: Sequence[str], rows: Rows) -> str:
    """A Markdown table; columns of numbers are aligned to the right, the first one never."""
    texts = [{row[i] for row in rows} for i in range(1, len(columns))]
    rule = ["---", *("---" if any(map(_is_text, cells)) else "---:" for cells in texts)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))


def _is_text(cell: str) -> bool:
    return cell[:1].isalpha() or cell.startswith("`")


def markdown(shown: Table, heading: str | None = None) -> str:
    """A table of a suite with its caption, under a heading."""
    text = shown.files()[f"{shown.name}.md"]
    body = text.split("\n", 2)[2] if text.startswith("**") else text
    return f"## {heading or shown.title}\n\n{body.strip()}"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean ± standard deviation over seeds; a single value by itself."""
    shown = f"{statistics.mean(values):.{digits}f}"
    return f"{shown} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else shown


def short(steps: float) -> str:
    """38.4M for 38,400,000."""
    return f"{steps / 1e6:.3g}M" if steps >= 1e6 else f"{steps / 1e3:.3g}k"


def seeds_of(rows: Iterable[dict[str, str]]) -> str:
    """The seeds of these rows."""
    return ", ".join(sorted({row["seed"] for row in rows}, key=int))


def number(runs: Csv, column: str) -> float:
    """The mean over runs; a cell may be empty."""
    return statistics.mean(float(run[column]) for run in runs if run[column])


START, END = "<!-- numbers: `make results` writes them -->", "<!-- end of the numbers -->"


def with_numbers(page: Path, numbers: str) -> str:
    """A page with the table between its two marks made again."""
    before, _, rest = page.read_text().partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{numbers}\n\n{END}{after}"


def seeds(rows: Csv) -> str:
    count = len({row["seed"] for row in rows})
    return "one seed" if count == 1 else f"{count} seeds"


def folded(summary: str, *parts: str) -> str:
    """A part that opens on a click."""
    body = "\n\n".join(parts)
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"
