"""A lock file held with flock: the kernel releases it when its process ends, even by SIGKILL."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from visr import terminal
from visr.errors import UserError
from visr.storage import new_files

log = terminal.logger()

TIMEOUT = 2.0
"""Seconds to wait: the kernel needs a moment to release the lock of a killed process."""
_PAUSE = 0.02
_LONGEST_NOTE = 120
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_held: set[int] = set()
"""Descriptors of the locks of this process."""


def _forget() -> None:
    """In a forked child: close the locks, which are its parent's and would outlive it."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_forget)


@contextlib.contextmanager
def held(
    path: Path, refusal: Callable[[str], str], timeout: float = TIMEOUT, keep: bool = False
) -> Iterator[int]:
    """Hold the lock file `path` with our process id in it, or raise `refusal` of its holder.

    Yields the descriptor; a child process that is started with it also holds the lock, a forked one does
    not. `keep` leaves the file.
    """
    descriptor = acquire(path, refusal, timeout)
    try:
        with contextlib.suppress(OSError):  # the disk may be full; the lock holds without a name
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield descriptor
    finally:
        if keep:
            _close(descriptor)
        else:
            release(descriptor, path)


def is_held(path: Path) -> bool:
    """Whether a running process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
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
        with new_files.directory(path.parent, create=False) as place:
            descriptor = _opened(path, place)
            try:
                if _is_ours(descriptor, path, place):
                    _held.add(descriptor)
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
    with contextlib.suppress(OSError), new_files.directory(path.parent, create=False) as place:
        if descriptor in _held and _is_at(descriptor, path.name, place):
            os.unlink(path.name, dir_fd=place)
    _close(descriptor)


def _close(descriptor: int) -> None:
    """Release the lock, unless a fork has made it another process's."""
    if descriptor in _held:
        _held.remove(descriptor)
        os.close(descriptor)


def _opened(path: Path, place: int) -> int:
    """A new file, or the existing one, of which nothing is changed before it is locked."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        with contextlib.suppress(FileExistsError):
            return os.open(path.name, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=place)
        with contextlib.suppress(FileNotFoundError):  # its holder has removed it meanwhile
            return os.open(path.name, flags, dir_fd=place)


def _is_ours(descriptor: int, path: Path, place: int) -> bool:
    """Lock the file; False if another process holds it, has replaced it, or if it is a hard link."""
    new_files.require_regular(descriptor, path)
    if not _flock(descriptor, path) or not _is_at(descriptor, path.name, place):
        return False
    if new_files.has_one_name(descriptor):
        return True
    os.unlink(path.name, dir_fd=place)  # our note would overwrite another file
    return False


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


def _is_at(descriptor: int, name: str, place: int) -> bool:
    """Whether the name is still that of the open file: the last holder may have removed it."""
    try:
        there = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def _name_in(descriptor: int) -> str:
    """The holder as the file names it; its content is untrusted."""
    text = os.pread(descriptor, _LONGEST_NOTE, 0).decode("utf-8", errors="replace").strip()
    return text if text.startswith("process ") and text.isprintable() else "another process"
