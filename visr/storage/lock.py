"""A lock that only living processes hold: flock on a file, so that even SIGKILL lets go of it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from visr.errors import UserError
from visr.storage import safe_open

log = logging.getLogger("visr")

PATIENCE = 2.0
"""Seconds in which the kernel clears up after a process that was killed just now."""
_PAUSE = 0.02
_LONGEST_NOTE = 120
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextlib.contextmanager
def held(
    path: Path, refusal: Callable[[str], str], patience: float = PATIENCE, keep: bool = False
) -> Iterator[int]:
    """Hold the lock file `path` with our name in it, or raise what `refusal` says of its holder.

    Gives the descriptor: a child that inherits it holds the lock too, even for longer, if the file is kept.
    """
    descriptor = take(path, refusal, patience)
    try:
        with contextlib.suppress(OSError):  # a full disk takes no name, but the lock holds
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield descriptor
    finally:
        if keep:
            os.close(descriptor)
        else:
            let_go(descriptor, path)


def is_held(path: Path) -> bool:
    """Whether some living process holds the lock at this moment; asks without taking it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(descriptor)
    return False


def take(path: Path, refusal: Callable[[str], str], patience: float) -> int:
    """A descriptor of the file at `path`, made if need be, that nobody else has; `let_go` gives it back."""
    deadline = time.monotonic() + patience
    while True:
        descriptor = safe_open.to_write(path, os.O_RDWR)
        try:
            # whoever had it may have removed the file: then the name belongs to another one by now
            if _flock(descriptor, path) and _is_at(descriptor, path):
                return descriptor
            holder = _name_in(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() > deadline:
            raise UserError(refusal(holder))
        time.sleep(_PAUSE)


def let_go(descriptor: int, path: Path) -> None:
    """Remove the file, if it is still the one that was taken, then let others have the name."""
    with contextlib.suppress(OSError):
        if _is_at(descriptor, path):
            path.unlink()
    os.close(descriptor)


def _flock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        _warn_of_no_locks(path.parent)
    return True


@functools.cache
def _warn_of_no_locks(place: Path) -> None:
    """Once for every directory."""
    log.warning("visr: There are no locks in %s; see that only one process writes there.", place)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _name_in(descriptor: int) -> str:
    """Who holds the lock, as far as the file tells; it may come from a stranger."""
    text = os.pread(descriptor, _LONGEST_NOTE, 0).decode("utf-8", errors="replace").strip()
    return text if text.startswith("process ") and text.isprintable() else "another process"
