"""Import the modules in which users register their environments, `module:Id-v0`.

Importing a module runs its code, and a run may come from a stranger. So a module is imported only if the user
named it: on the command line, in `visr.pretrain`, or in VISR_TRUST.
"""

from __future__ import annotations

import importlib
import os
import sys

from visr.errors import UserError

TRUST = "VISR_TRUST"
"""The environment variable with trusted modules, separated by commas; child processes inherit it."""


def module_of(env: str) -> str:
    """The part before the colon of an environment's id; empty without a colon."""
    module, colon, _ = env.rpartition(":")
    return module if colon else ""


def trust(env: str) -> None:
    """Allow the import of this environment's module, because the user named it."""
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
    if (here := os.getcwd()) not in sys.path:  # the user's module is often there
        sys.path.insert(0, here)
    try:
        importlib.import_module(module)
    except Exception as error:  # the user's code failed
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise UserError(
            f"The module {module!r} of the environment {env!r} could not be imported ({reason})."
        ) from error


def _trusted() -> list[str]:
    return [name for name in os.environ.get(TRUST, "").split(",") if name]
