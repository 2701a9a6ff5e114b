"""Read and write whole files, atomically; errors of the disk become one sentence."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from visr.errors import UserError
from visr.storage import checksums, lock, safe_open

_LARGEST_JSON = 64 * 1024 * 1024
_LONGEST_WRITE = 600.0
"""Seconds to wait for another process that writes the same file."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError (disk full, read-only, no permission) into a UserError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        raise UserError(
            f"Cannot write {path}: {reason}; free some space or choose another place."
        ) from error


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a file that cannot be read into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Cannot read {path}: {error.strerror or error}; check its name and its permissions."
        ) from None
    except UnicodeDecodeError:
        raise UserError(
            f"{path} is damaged: it is not text; restore it or make it again."
        ) from None


def write_bytes(path: Path, *content: bytes | memoryview) -> None:
    """Write atomically: to a temporary name, sync, rename, sync the directory.

    The temporary file is locked, so that no other process renames it while it is incomplete.
    """
    with writing(path):
        if not path.name:  # such as . or /
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        partial = path.with_name(f"{path.name}.partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = lock.acquire(partial, lambda _: f"{partial} is in use.", _LONGEST_WRITE)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.truncate(0)  # a killed process may have left something
                file.writelines(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            lock.release(descriptor, partial)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def write_tensors(path: Path, content: bytes) -> None:
    """Write a safetensors file atomically, with a checksum of all of it."""
    write_bytes(path, *checksums.with_checksum(content))


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON atomically; objects get a checksum. Equal content gives equal bytes."""
    if isinstance(content, dict):
        content = {**content, checksums.KEY: checksums.of_json(content)}
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def read_bytes(path: Path, most: int) -> bytes:
    """All of a regular file of at most `most` bytes."""
    with reading(path), safe_open.to_read(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise UserError(f"{path} is larger than {most:,} bytes; it is not one of ours.")
        return file.read()


def read_json(path: Path) -> Any:
    """The content of a JSON file without its checksum, or a UserError that says what is wrong."""
    with reading(path):
        text = read_bytes(path, _LARGEST_JSON).decode("utf-8")
    try:
        return checksums.verified(json.loads(text))
    except checksums.DamagedFile:
        raise UserError(
            f"{path} is not as it was written (its checksum does not match): restore it or make it again; "
            f'if you changed it yourself, remove its line "{checksums.KEY}".'
        ) from None
    except (ValueError, RecursionError):
        raise UserError(
            f"{path} is damaged: it is not JSON; restore it or make it again."
        ) from None
