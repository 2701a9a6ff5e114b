"""Import and read nothing from the working directory: it may be an untrusted run.

`python -m` puts the working directory first on the module path. Matplotlib reads `matplotlibrc` there when it
is imported (a pipe of that name would block it), and wandb reads `wandb/settings`, which may name another
server for the user's key.
"""

from __future__ import annotations

import contextlib
import os
import sys
from contextlib import AbstractContextManager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_OURS = Path(__file__).parent
_HOME = Path(__file__).resolve().parents[1]
"""The directory from which visr itself is imported."""


def child_command(module: str) -> list[str]:
    """The command that runs a module of visr in another process."""
    return [sys.executable, "-P", "-m", module]


def child_environment() -> dict[str, str]:
    """Variables of that process: one thread, our module path, never the working directory."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join(filter(_is_safe, sys.path)),
    }


def _is_safe(place: str) -> bool:
    """Whether a part of the module path is absolute, and not the working directory unless visr is there."""
    here = Path(place)
    return here.is_absolute() and (here.resolve() == _HOME or here.resolve() != Path.cwd())


def elsewhere() -> AbstractContextManager[None]:
    """A working directory without settings."""
    return contextlib.chdir(_OURS)


def ignore_settings() -> None:
    """From now on, import Matplotlib without the `matplotlibrc` of the working directory."""
    if not any(isinstance(finder, _Matplotlib) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Matplotlib())


class _Matplotlib(MetaPathFinder):
    """Finds Matplotlib as usual, and lets it read its settings elsewhere."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname) if fullname == "matplotlib" else None
        if spec is None or spec.loader is None or not os.path.lexists("matplotlibrc"):
            return None
        execute = spec.loader.exec_module

        def execute_elsewhere(module: ModuleType) -> None:
            with elsewhere():
                execute(module)

        spec.loader.exec_module = execute_elsewhere
        return spec
