"""The one way to write files: into new files of our own, which then take the place of old ones.

A run may be untrusted, and any file in it may be a link: a symbolic one, or a hard link, which is
a second name of a file outside. So no existing file is opened for writing, except a table or a lock that
has no second name. Below the directory of a run no symbolic link is followed, even if a directory is
swapped for a link meanwhile: each directory is opened from the one above it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
PARTIAL = ".partial"
"""The end of the temporary names."""
_roots: set[Path] = set()
"""Directories below which no link is followed."""


def confine(root: Path) -> None:
    """Follow no symbolic link below this directory from now on, when files are written."""
    _roots.add(_absolute(root))


@contextlib.contextmanager
def directory(path: Path, create: bool = True) -> Iterator[int]:
    """A descriptor of a directory; one that is missing is created."""
    descriptor = _opened(path, create)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` at the end, synced; it is removed if anything fails."""
    if not path.name:  # such as . or /
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with directory(path.parent) as place:
        remove_stale(path.name, place)
        name, descriptor = _temporary(path.name, place)
        try:
            with open(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(name, path.name, src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=place)
            raise
        os.fsync(place)


def create(path: Path, mode: int = 0o666) -> int:
    """A descriptor of a new, empty file; the name of an older file is removed, not its content."""
    with directory(path.parent) as place:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=place)
        return os.open(path.name, os.O_WRONLY | _NEW, mode, dir_fd=place)


def append(path: Path, content: bytes) -> None:
    """Add bytes to the end of a file, synced; one with several names is copied to a new file first."""
    is_new = False
    with directory(path.parent) as place:
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(path.name, flags, dir_fd=place)
        except FileNotFoundError:
            descriptor = os.open(path.name, os.O_WRONLY | os.O_APPEND | _NEW, 0o666, dir_fd=place)
            is_new = True
        try:
            require_regular(descriptor, path)
            if has_one_name(descriptor):
                _append(descriptor, content)
                if is_new:
                    os.fsync(place)
                return
        finally:
            os.close(descriptor)
    before = path.read_bytes()
    with replacing(path) as file:
        file.writelines((before, content))


def _append(descriptor: int, content: bytes) -> None:
    """Write all of it and sync, or leave the file as it was."""
    size, rest = os.fstat(descriptor).st_size, memoryview(content)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def remove(path: Path) -> None:
    """Remove a file, if it exists."""
    with contextlib.suppress(FileNotFoundError), directory(path.parent, create=False) as place:
        os.unlink(path.name, dir_fd=place)


def rename(path: Path, name: str) -> None:
    """Rename a file within its directory."""
    with directory(path.parent, create=False) as place:
        os.replace(path.name, name, src_dir_fd=place, dst_dir_fd=place)
        os.fsync(place)


def make_directories(path: Path) -> None:
    """Create a directory and those above it that are missing; their names are synced."""
    if path.is_dir():
        return
    make_directories(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    with contextlib.suppress(PermissionError):  # one may write in it, but not read
        above = os.open(path.parent, _DIRECTORY)
        try:
            os.fsync(above)
        finally:
            os.close(above)


def has_one_name(descriptor: int) -> bool:
    """Whether no hard link makes this file another one, too."""
    return os.fstat(descriptor).st_nlink <= 1


def require_regular(descriptor: int, path: Path) -> None:
    """Refuse pipes, devices and directories: reading a pipe may block, and a device may never end."""
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "It is a pipe or a device", str(path))


def remove_stale(name: str, place: int) -> None:
    """Remove temporary files of killed processes for this name; those of running ones are locked."""
    ours = re.compile(re.escape(name) + r"(\.[0-9a-f]{8})?" + re.escape(PARTIAL))
    for found in filter(ours.fullmatch, os.listdir(place)):
        with contextlib.suppress(OSError):  # a link or a pipe; another process removes it
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(found, flags, dir_fd=place)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(found, dir_fd=place)
            finally:
                os.close(descriptor)


def _temporary(name: str, place: int) -> tuple[str, int]:
    """The name and the descriptor of a new file, locked for as long as it is open."""
    while True:
        partial = f"{name}.{secrets.token_hex(4)}{PARTIAL}"
        descriptor = os.open(partial, os.O_WRONLY | _NEW, 0o666, dir_fd=place)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:  # no other process took it for a stale one meanwhile
            return partial, descriptor
        os.close(descriptor)


def _opened(path: Path, create: bool) -> int:
    whole = _absolute(path)
    root = next((place for place in (*whole.parents[::-1], whole) if place in _roots), None)
    if root is None or ".." in path.parts:  # the user's own path: links in it are meant
        if create:
            make_directories(path)
        return os.open(path, _DIRECTORY)
    if create:
        make_directories(root)
    descriptor = os.open(root, _DIRECTORY)
    for part in whole.relative_to(root).parts:
        above, descriptor = descriptor, -1
        try:
            descriptor = _opened_below(above, part, create)
        finally:
            os.close(above)
    return descriptor


def _opened_below(above: int, name: str, create: bool) -> int:
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)
            os.fsync(above)
    try:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    except NotADirectoryError:
        if stat.S_ISLNK(os.lstat(name, dir_fd=above).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def _absolute(path: Path) -> Path:
    try:
        return Path(os.path.abspath(path))
    except OSError:  # the working directory was deleted
        return path
