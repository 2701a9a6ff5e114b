"""A run's curves, as they stand on disk now."""

from __future__ import annotations

from typing import Any

from visr.errors import UserError
from visr.storage.run_dir import RunDir
from visr.storage.tables import read_rows

_MOST_POINTS = 600


def read(run: RunDir) -> dict[str, Any]:
    """Columns of every CSV file of the run, thinned to what a screen can show."""
    files = {
        "metrics": run.metrics,
        "evaluation": run.evaluation,
        "online": run.online,
        "timing": run.timing,
    }
    curves: dict[str, Any] = {}
    for name, file in files.items():
        try:
            curves[name] = _columns(read_rows(file))
        except UserError:  # being written at this very moment, or damaged: the others still stand
            curves[name] = {}
    return curves


def _columns(rows: list[dict[str, float]]) -> dict[str, list[float | None]]:
    stride = -(-len(rows) // _MOST_POINTS)
    kept = rows[:: stride or 1]
    if rows and kept[-1] is not rows[-1]:
        kept = [*kept, rows[-1]]
    return {name: [_finite(row[name]) for row in kept] for name in (rows[0] if rows else ())}


def _finite(x: float) -> float | None:
    return x if abs(x) < float("inf") else None
