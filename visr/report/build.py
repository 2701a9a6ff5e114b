"""Write the report of one run: read everything, draw everything, and only then write files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from visr.report import figures, page, read, scores
from visr.report.read import RunData
from visr.storage.files import write_bytes
from visr.storage.run_dir import RunDir


def write(path: Path, out: Path | None = None) -> dict[str, Any]:
    """Write PNGs and one index.html into `out` (default: report/ in the run); return a summary."""
    run = read.run_data(Path(path))
    pictures = figures.draw(run)
    html = page.html(run, pictures).encode()
    target = RunDir(path).report if out is None else Path(out)
    for picture in pictures.values():
        write_bytes(target / picture.file, picture.png)
    write_bytes(target / "index.html", html)
    return _summary(run, target / "index.html")


def _summary(run: RunData, file: Path) -> dict[str, Any]:
    """Ready for JSON: a number that is not finite becomes None."""
    fractions = run.fraction_of_optimal
    return {
        "page": str(file),
        "run": str(run.path),
        "env": run.config.env,
        "num_steps": run.num_steps,
        "fraction_of_optimal": {name: _finite(x) for name, x in fractions.items()},
        "tasks": [
            {
                "name": saved.task.name,
                "file": saved.stem,
                "fraction_of_optimal": saved.evaluation and saved.evaluation.fraction_of_optimal,
                "r_squared": _finite(saved.task.r_squared),
            }
            for saved in run.tasks
        ],
        "online_score": _finite(float(scores.smoothed(run.online)[-1])) if run.online else None,
        "phase_two": {
            condition.name: {
                "mean": condition.mean,
                "standard_error": condition.standard_error,
                "human_normalised": condition.human_normalised,
            }
            for condition in (run.two_phase.conditions if run.two_phase else ())
        },
    }


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
