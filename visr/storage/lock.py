"""A lock file held with flock: the kernel releases it when its process ends, even by SIGKILL."""

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

log = logging.getLogger("visr")

TIMEOUT = 2.0
"""Seconds to wait: the kernel needs a moment to release the lock of a killed process."""
_PAUSE = 0.02
_LONGEST_NOTE = 120
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextlib.contextmanager
def held(
    path: Path, refusal: Callable[[str], str], timeout: float = TIMEOUT, keep: bool = False
) -> Iterator[int]:
    """Hold the lock file `path` with our process id in it, or raise `refusal` of its holder.

    Yields the descriptor; a child process that inherits it also holds the lock. `keep` leaves the file.
    """
    descriptor = acquire(path, refusal, timeout)
    try:
        with contextlib.suppress(OSError):  # the disk may be full; the lock holds without a name
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield descriptor
    finally:
        if keep:
            os.close(descriptor)
        else:
            release(descriptor, path)


def is_held(path: Path) -> bool:
    """Whether a running process holds the lock."""
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


def acquire(path: Path, refusal: Callable[[str], str], timeout: float) -> int:
    """A descriptor of the locked file at `path`, created if missing; give it to `release`."""
    deadline = time.monotonic() + timeout
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            # the previous holder may have removed the file: then `path` is another file now
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


def release(descriptor: int, path: Path) -> None:
    """Remove the file if it is still the locked one, then release the lock."""
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
    """Warn once per directory."""
    log.warning("visr: There are no locks in %s; see that only one process writes there.", place)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _name_in(descriptor: int) -> str:
    """The holder as the file names it; its content is untrusted."""
    text = os.pread(descriptor, _LONGEST_NOTE, 0).decode("utf-8", errors="replace").strip()
    return text if text.startswith("process ") and text.isprintable() else "another process"
