"""Reports of runs: figures, tables and one HTML page, from files alone (no torch, no environment)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from visr.report import figures, page, read, scores
from visr.report.read import RunData, SavedTask
from visr.storage.files import write_bytes
from visr.storage.run_dir import RunDir


def write(path: Path, out: Path | None = None) -> dict[str, Any]:
    """Report a run, or all runs below a directory that is not a run itself; return a summary.

    PNG files and one index.html are written into `out` (default: report/ in `path`).
    """
    path = Path(path)
    if path.is_dir() and not RunDir(path).config_file.exists():
        from visr.paper import suite

        return suite.write(path, out)
    run = read.run_data(path)
    pictures = figures.draw(run)
    html = page.html(run, pictures).encode()  # everything is drawn before the first file is written
    target = RunDir(path).report if out is None else Path(out)
    for picture in pictures.values():
        write_bytes(target / picture.file, picture.png)
    write_bytes(target / "index.html", html)
    return {"page": str(target / "index.html"), **_summary(run)}


def _summary(run: RunData) -> dict[str, Any]:
    """Ready for JSON: a number that is not finite becomes None."""
    return {
        "run": str(run.path),
        "env": run.config.env,
        "num_steps": run.num_steps,
        "fraction_of_optimal": {k: _finite(x) for k, x in run.fraction_of_optimal.items()},
        "tasks": [
            {
                "name": saved.task.name,
                "file": saved.stem,
                "fraction_of_optimal": saved.evaluation and saved.evaluation.fraction_of_optimal,
                "r_squared": _finite(saved.task.r_squared),
                "asked_as": saved.asked_as,
                "asked_returns": _asked_returns(saved),
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


def _asked_returns(saved: SavedTask) -> dict[str, float] | None:
    """Mean asked returns by policy, outside the grid."""
    if saved.episodes is None:
        return None
    return {one.policy: one.asked.mean for one in saved.episodes.policies}


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
