"""Calls of the operating system that touch files, seen before and after they happen, and made to fail.

The functions of `os`, `fcntl.flock` and `open` are replaced in this process; names of files do not matter.
Data that Python's file objects write reaches the layer at the system call, after their buffers.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

STORAGE = str(Path(__file__).parents[3] / "visr" / "storage") + os.sep
_DEEPEST = 16
"""Frames between a function of storage and the call, such as those of pathlib and shutil."""


@dataclass(frozen=True)
class Call:
    """One call, with all that a replay needs to know of it."""

    kind: str
    """open, write, truncate, fsync, rename, link, unlink, mkdir, rmdir or lock."""
    path: str
    """Absolute; of a descriptor the path that it was opened with."""
    target: str = ""
    """Of a rename or a link: the new name."""
    data: bytes = b""
    """Of a write."""
    offset: int = 0
    """Of a write or of a truncation."""
    flags: int = 0
    """Of an open."""
    inode: tuple[int, int] = field(default=(0, 0), compare=False)
    """Device and number of the file, where the call has a descriptor, or makes one."""

    @property
    def is_creating(self) -> bool:
        """Whether it may create or empty a file."""
        return bool(self.flags & (os.O_CREAT | os.O_TRUNC))

    @property
    def needs_space(self) -> bool:
        """Whether a full disk may refuse it."""
        return self.is_creating or self.kind in ("write", "fsync", "mkdir", "rename", "link")


Before = Callable[[Call], "int | None"]
"""Called before a call: raises OSError, or limits a write to so many bytes, or None."""
After = Callable[[Call], None]
"""Called after a call that succeeded."""


def is_of_storage(_call: Call) -> bool:
    """Whether a function of visr/storage is among the callers."""
    frame = sys._getframe(1)
    for _ in range(_DEEPEST):
        if frame is None:
            return False
        if frame.f_code.co_filename.startswith(STORAGE):
            return True
        frame = frame.f_back
    return False


class _Layer:
    """The replacements; `only` decides which calls are shown."""

    def __init__(self, before: Before, after: After, only: Callable[[Call], bool]) -> None:
        self._before, self._after, self._only = before, after, only
        self._real = {name: getattr(os, name) for name in _PATCHED}
        self._flock, self._builtin_open = fcntl.flock, builtins.open
        self._paths: dict[int, str] = {}

    def replacements(self) -> list[tuple[Any, str, Any]]:
        names = [(os, name, getattr(self, f"_{name}")) for name in _PATCHED]
        files = [(module, "open", self._open_file) for module in (builtins, io)]
        return [*names, *files, (fcntl, "flock", self._lock)]

    # ---- how a call is shown

    def _show(self, call: Call, act: Callable[[], Any]) -> Any:
        if not self._only(call):
            return act()
        self._before(call)
        result = act()
        self._after(call)
        return result

    def _at(self, path: Any, dir_fd: int | None = None) -> str:
        name = os.fsdecode(path)
        place = os.getcwd() if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        return os.path.normpath(os.path.join(place, name))

    def _of(self, descriptor: int) -> tuple[str, tuple[int, int]]:
        known = os.fstat(descriptor)
        return self._paths.get(descriptor, ""), (known.st_dev, known.st_ino)

    # ---- os

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        where = self._at(path, dir_fd)
        if is_shown := self._only(Call("open", where, flags=flags)):
            self._before(Call("open", where, flags=flags))
        descriptor = self._real["open"](path, flags, mode, dir_fd=dir_fd)
        self._paths[descriptor] = where
        if is_shown:
            self._after(Call("open", where, flags=flags, inode=self._of(descriptor)[1]))
        return descriptor

    def _write(self, descriptor: int, data: Any, /) -> int:
        return self._written(descriptor, data, lambda part: self._real["write"](descriptor, part))

    def _pwrite(self, descriptor: int, data: Any, offset: int, /) -> int:
        act = lambda part: self._real["pwrite"](descriptor, part, offset)  # noqa: E731
        return self._written(descriptor, data, act, offset)

    def _written(
        self, descriptor: int, data: Any, act: Callable[[Any], int], offset: int | None = None
    ) -> int:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return act(data)
        if offset is None:
            is_appending = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
            offset = os.lseek(descriptor, 0, os.SEEK_END if is_appending else os.SEEK_CUR)
        path, inode = self._of(descriptor)
        given = bytes(data)
        call = Call("write", path, data=given, offset=offset, inode=inode)
        if not self._only(call):
            return act(given)
        most = self._before(call)
        count = act(given if most is None else given[:most])
        self._after(Call("write", path, data=given[:count], offset=offset, inode=inode))
        return count

    def _ftruncate(self, descriptor: int, length: int, /) -> None:
        act = lambda: self._real["ftruncate"](descriptor, length)  # noqa: E731
        path, inode = self._of(descriptor)
        return self._show(Call("truncate", path, offset=length, inode=inode), act)

    def _fsync(self, descriptor: int) -> None:
        act = lambda: self._real["fsync"](descriptor)  # noqa: E731
        path, inode = self._of(descriptor)
        return self._show(Call("fsync", path, inode=inode), act)

    _fdatasync = _fsync

    def _renamed(
        self,
        name: str,
        source: Any,
        target: Any,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        **more: Any,
    ) -> None:
        act = lambda: self._real[name](  # noqa: E731
            source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **more
        )
        kind = "link" if name == "link" else "rename"
        call = Call(kind, self._at(source, src_dir_fd), self._at(target, dst_dir_fd))
        return self._show(call, act)

    def _replace(self, source: Any, target: Any, **more: Any) -> None:
        return self._renamed("replace", source, target, **more)

    def _rename(self, source: Any, target: Any, **more: Any) -> None:
        return self._renamed("rename", source, target, **more)

    def _link(self, source: Any, target: Any, **more: Any) -> None:
        return self._renamed("link", source, target, **more)

    def _at_path(
        self, name: str, kind: str, path: Any, *rest: Any, dir_fd: int | None = None
    ) -> None:
        act = lambda: self._real[name](path, *rest, dir_fd=dir_fd)  # noqa: E731
        return self._show(Call(kind, self._at(path, dir_fd)), act)

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        return self._at_path("unlink", "unlink", path, dir_fd=dir_fd)

    def _remove(self, path: Any, *, dir_fd: int | None = None) -> None:
        return self._at_path("remove", "unlink", path, dir_fd=dir_fd)

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        return self._at_path("mkdir", "mkdir", path, mode, dir_fd=dir_fd)

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        return self._at_path("rmdir", "rmdir", path, dir_fd=dir_fd)

    # ---- others

    def _lock(self, descriptor: Any, operation: int) -> None:
        act = lambda: self._flock(descriptor, operation)  # noqa: E731
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        return self._show(Call("lock", self._of(number)[0]), act)

    def _open_file(self, file: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        """`open`, with each write(2) and open(2) of the file object shown."""
        is_read = not set(mode) & set("wax+")
        named = self._paths.get(file, "") if isinstance(file, int) else self._at(file)
        if (is_read and isinstance(file, int)) or not self._only(Call("open", named)):
            return self._builtin_open(file, mode, *rest, **more)
        layer = self

        class Raw(io.FileIO):
            def write(self, data: Any, /) -> int:
                return layer._written(self.fileno(), data, super().write)

            def truncate(self, size: int | None = None, /) -> int:
                length = self.tell() if size is None else size
                path, inode = layer._of(self.fileno())
                layer._show(
                    Call("truncate", path, offset=length, inode=inode),
                    lambda: super(Raw, self).truncate(length),
                )
                return length

        closefd, opener = more.pop("closefd", True), more.pop("opener", None)
        plain = mode.replace("b", "").replace("t", "")
        raw = Raw(file, plain, closefd, opener or (lambda p, flags: os.open(p, flags, 0o666)))
        buffered = _buffered(raw, plain)
        if "b" in mode:
            return buffered
        more.pop("buffering", None)
        return io.TextIOWrapper(buffered, *rest[1:], **more)


def _buffered(raw: io.FileIO, mode: str) -> Any:
    if "+" in mode:
        return io.BufferedRandom(raw)
    return io.BufferedReader(raw) if "r" in mode else io.BufferedWriter(raw)


_PATCHED = (
    *("open", "write", "pwrite", "ftruncate", "fsync", "fdatasync"),
    *("replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir"),
)


@contextlib.contextmanager
def watched(before: Before, after: After, only: Callable[[Call], bool]) -> Iterator[None]:
    """Show every call for which `only` is true; what `before` raises, the caller gets."""
    layer = _Layer(before, after, only)
    with contextlib.ExitStack() as stack:
        for module, name, replacement in layer.replacements():
            stack.enter_context(mock.patch.object(module, name, replacement))
        yield


class Numbered:
    """A context, once for one process, in which calls are numbered from 1 and noted in a file.

    `act` is called with the number before the call; it may raise, or return the most bytes of a write.
    """

    def __init__(
        self,
        notes: Path,
        only: Callable[[Call], bool],
        act: Callable[[int, Call], int | None],
        note: Callable[[Call], str] = lambda call: call.kind,
    ) -> None:
        self._notes, self._only, self._act, self._note = notes, only, act, note
        self._count, self._stack, self._write = 0, contextlib.ExitStack(), os.write

    def __enter__(self) -> None:
        self._file = os.open(self._notes, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self._stack.enter_context(watched(self._before, lambda _: None, self._only))

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _before(self, call: Call) -> int | None:
        self._count += 1
        self._write(self._file, f"{self._note(call)}\n".encode())
        return self._act(self._count, call)

    def noted(self) -> tuple[str, ...]:
        """The notes on all calls; the file is removed."""
        notes = tuple(self._notes.read_text().splitlines()) if self._notes.exists() else ()
        self._notes.unlink(missing_ok=True)
        return notes
