"""Environments that users register in modules of their own, `module:Id-v0`.

Making one imports its module, and importing runs it. A run may come from a stranger, so a module is imported
only where the user named it: on the command line, in `visr.pretrain`, or in VISR_TRUST.
"""

from __future__ import annotations

import importlib
import os
import sys

from visr.errors import UserError

TRUST = "VISR_TRUST"
"""The environment variable that names trusted modules, with commas between; child processes inherit it."""


def module_of(env: str) -> str:
    """What stands before the colon of an environment's id; empty where there is none."""
    module, colon, _ = env.rpartition(":")
    return module if colon else ""


def trust(env: str) -> None:
    """The user asked for this environment by name: its module may be imported from now on."""
    module = module_of(env)
    if module and module not in _trusted():
        os.environ[TRUST] = ",".join([*_trusted(), module])


def load(env: str) -> None:
    """Import the module that registers `env`, if it has one and the user trusts it."""
    module = module_of(env)
    if not module or module in sys.modules:
        return
    if module not in _trusted():
        raise UserError(
            f"The environment {env!r} would import the Python module {module!r}, which runs its code; if you "
            f"trust it, set {TRUST}={module} or import it first."
        )
    if (here := os.getcwd()) not in sys.path:  # a user's module often lies where they stand
        sys.path.insert(0, here)
    try:
        importlib.import_module(module)
    except Exception as error:  # it is other people's code that failed, at our door
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise UserError(
            f"The module {module!r} of the environment {env!r} could not be imported ({reason})."
        ) from error


def _trusted() -> list[str]:
    return [name for name in os.environ.get(TRUST, "").split(",") if name]
