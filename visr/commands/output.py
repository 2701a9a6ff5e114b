"""Results on stdout, everything else on stderr, progress only on a terminal."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visr.errors import one_line

if TYPE_CHECKING:
    from visr.training.driver import Observer, Status


_UNBROKEN = 10_000
"""Width of a table that goes to a file or a pipe, so that paths are not broken."""


def say(text: str) -> None:
    """Print one line on stderr."""
    print(one_line(text, _UNBROKEN), file=sys.stderr)


def show(
    result: dict[str, Any],
    as_json: bool,
    title: str = "",
    rows: Sequence[tuple[str, ...]] = (),
    header: tuple[str, ...] | None = None,
    *,
    path: Path | str | None = None,
    remarks: Sequence[str] = (),
) -> None:
    """Print a command's result: as one JSON object, or as a table, a path and, on stderr, remarks."""
    if as_json:
        emit(result)
        return
    if rows:
        table(title, rows, header)
    if path is not None:
        print(path)
    for remark in remarks:
        say(remark)


def emit(content: dict[str, Any]) -> None:
    """Print one JSON object on stdout; NaN and infinity become null, because JSON has neither."""
    print(json.dumps(plain(content), allow_nan=False))


def plain(value: Any) -> Any:
    """The same value with None for NaN and infinity."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(
    title: str, rows: Sequence[tuple[str, ...]], header: tuple[str, ...] | None = None
) -> None:
    """Print a small table on stdout; lines are broken only on a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, show_header=bool(header))
    for index, name in enumerate(header or rows[0]):
        grid.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        grid.add_row(*(one_line(cell, _UNBROKEN) for cell in row))
    width = None if sys.stdout.isatty() else _UNBROKEN
    console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
    console.print(one_line(title, _UNBROKEN))
    console.print(grid)


@contextlib.contextmanager
def training_progress(label: str = "pre-training") -> Iterator[Observer | None]:
    """A progress bar with steps/s, time left and the main metrics; None when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(f"[bold]{label}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[numbers]}"),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as progress:
        line = progress.add_task("", total=None, rate="", numbers="")

        def observe(status: Status) -> None:
            speed = progress.tasks[line].speed
            progress.update(
                line,
                total=status.total_steps,
                completed=min(status.num_steps, status.total_steps),
                rate=f"{speed:,.0f} steps/s" if speed else "",
                numbers=_numbers(status),
            )

        yield observe


def _numbers(status: Status) -> str:
    shown = [f"[bold red]{status.trouble}[/]"] if status.trouble else []
    if status.note:
        shown.append(status.note)
    if "intrinsic_reward" in status.metrics:
        shown.append(f"phi.w {status.metrics['intrinsic_reward']:.3f}")
    for family in ("span", "boxes", "goals"):
        if family in status.evaluation:
            shown.append(f"{family} {status.evaluation[family]:.2f}")
    if "mean_return" in status.evaluation:
        shown.append(f"return {status.evaluation['mean_return']:.1f}")
    if stats := status.stats:
        shown.append(f"actors {stats['actors']:.0f}, queue {stats['queue']:.0f}")
        shown.append(f"stale {stats['staleness']:.1f} (at most {stats['max_staleness']:.0f})")
        shown.append(
            f"waiting: actors {stats['actors_waiting']:.0%}, learner {stats['learner_waiting']:.0%}"
        )
    return "  ".join(shown)
