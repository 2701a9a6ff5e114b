"""visr: reward-free pre-training with fast task inference (VISR, Hansen et al., ICLR 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
    "Evaluation", "Policy", "Run", "Task", "UserError",
    "load", "mix", "pack", "pretrain", "pull", "push", "resume",
]  # fmt: skip

if TYPE_CHECKING:
    from visr.api import (
        Evaluation,
        Policy,
        Run,
        Task,
        load,
        mix,
        pack,
        pretrain,
        pull,
        push,
        resume,
    )  # fmt: skip
    from visr.errors import UserError


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Import torch only when somebody asks for what needs it."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("visr")
        except PackageNotFoundError:  # imported from a checkout that was never installed
            return "unknown"
    if name not in __all__:
        raise AttributeError(f"module 'visr' has no attribute {name!r}")
    from visr import startup_checks

    startup_checks.check()
    from visr import api

    return getattr(api, name)
