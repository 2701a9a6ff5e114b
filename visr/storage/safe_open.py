"""Open files of an untrusted directory: only regular files are read, and links are not followed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO


def to_read(path: Path) -> IO[bytes]:
    """A regular file, or an OSError: reading a pipe may block, and a device may never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        words = os.strerror(number) if stat.S_ISDIR(kind) else "It is a pipe or a device"
        raise OSError(number, words, str(path))
    return open(descriptor, "rb")


def to_write(path: Path, flags: int) -> int:
    """A descriptor of that file, created if missing; an OSError if it is a symbolic link."""
    try:
        return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            words = f"{path.name} is a link to another place"
            raise OSError(errno.ELOOP, words, str(path)) from None
        raise
