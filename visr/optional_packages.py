"""Packages that only some uses of visr need."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from visr.errors import UserError


@contextlib.contextmanager
def needing(module: str, extra: str, what: str = "This") -> Iterator[None]:
    """If an import inside fails because `module` is not installed, name the extra that installs it."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] != module:
            raise
        raise UserError(f'{what} needs {module}: pip install "visr[{extra}]".') from None
