"""The one exception that is meant for the user's eyes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class UserError(Exception):
    """Something the user can mend: one sentence that names the offending value and the way out.

    The command line prints it on stderr and exits with code 2; Python code sees an ordinary exception.
    """


@contextlib.contextmanager
def needing(module: str, extra: str) -> Iterator[None]:
    """Imports inside that lack `module` become a sentence that names the extra with it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UserError(
            f'This needs {module}; install it with `pip install "visr[{extra}]"`.'
        ) from None
