"""Files that may be a stranger's: pipes and devices are not read, and nothing is written through links."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO


def to_read(path: Path) -> IO[bytes]:
    """An ordinary file, or an OSError: a pipe would be waited for, and a device never ends."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        words = os.strerror(number) if stat.S_ISDIR(kind) else "It is a pipe or a device"
        raise OSError(number, words, str(path))
    return open(descriptor, "rb")


def to_write(path: Path, flags: int) -> int:
    """A descriptor of the file of that very name, made if need be: what a link points to is not ours."""
    try:
        return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            words = f"{path.name} is a link to another place"
            raise OSError(errno.ELOOP, words, str(path)) from None
        raise
