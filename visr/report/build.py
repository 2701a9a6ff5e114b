"""From a run directory to a report: read everything, draw everything, and only then write."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from visr.report import figures, page, read, scores
from visr.report.read import Record
from visr.storage.files import write_bytes
from visr.storage.run_dir import RunDir


def write(run: Path, out: Path | None = None) -> dict[str, Any]:
    """Write PNGs and one self-contained index.html into `out` (default: the run's report/); sum it up."""
    record = read.record(Path(run))
    drawn = figures.draw(record)
    html = page.html(record, drawn).encode()
    target = RunDir(run).report if out is None else Path(out)
    for picture in drawn.values():
        write_bytes(target / picture.file, picture.png)
    write_bytes(target / "index.html", html)
    return _summary(record, target / "index.html")


def _summary(record: Record, file: Path) -> dict[str, Any]:
    """JSON-able; what is not a finite number is None."""
    fractions = record.fraction_of_optimal
    return {
        "page": str(file),
        "run": str(record.path),
        "env": record.config.env,
        "num_steps": record.num_steps,
        "fraction_of_optimal": {name: _finite(x) for name, x in fractions.items()},
        "tasks": [
            {
                "name": saved.task.name,
                "file": saved.stem,
                "fraction_of_optimal": saved.evaluation and saved.evaluation.fraction_of_optimal,
                "r_squared": _finite(saved.task.r_squared),
            }
            for saved in record.tasks
        ],
        "online_score": _finite(float(scores.smoothed(record.online)[-1]))
        if record.online
        else None,
        "phase_two": {
            condition.name: {
                "mean": condition.mean,
                "standard_error": condition.standard_error,
                "human_normalised": condition.human_normalised,
            }
            for condition in (record.phase_two.conditions if record.phase_two else ())
        },
    }


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
