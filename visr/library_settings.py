"""Libraries that read settings from the working directory do not find them: it may be a stranger's run.

Matplotlib reads `matplotlibrc` when it is imported (a pipe of that name would block it), and wandb reads
`wandb/settings`, which may name another server for the user's key.
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


def elsewhere() -> AbstractContextManager[None]:
    """A working directory without settings."""
    return contextlib.chdir(_OURS)


def ignore_working_directory() -> None:
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
