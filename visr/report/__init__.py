"""Reports of runs: figures, tables and one HTML page, from files alone (no torch, no environment)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visr.report.build import write as write_run
from visr.storage.run_dir import RunDir

__all__ = ["write", "write_run"]


def write(path: Path, out: Path | None = None) -> dict[str, Any]:
    """Report a run, or all runs below a directory that is not a run itself."""
    if Path(path).is_dir() and not RunDir(path).config_file.exists():
        from visr.paper import suite

        return suite.write(Path(path), out)
    return write_run(Path(path), out)
