"""Read a run's training curves from disk."""

from __future__ import annotations

from typing import Any

from visr.errors import UserError
from visr.storage.run_dir import RunDir
from visr.storage.tables import read_rows

_MAX_POINTS = 600


def read(run: RunDir) -> dict[str, Any]:
    """The columns of every CSV file, with at most 600 points each."""
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
        except UserError:  # being written or damaged: show the others
            curves[name] = {}
    return curves


def _columns(rows: list[dict[str, float]]) -> dict[str, list[float | None]]:
    stride = -(-len(rows) // _MAX_POINTS)
    kept = rows[:: stride or 1]
    if rows and kept[-1] is not rows[-1]:
        kept = [*kept, rows[-1]]
    return {name: [_finite(row[name]) for row in kept] for name in (rows[0] if rows else ())}


def _finite(x: float) -> float | None:
    return x if abs(x) < float("inf") else None
