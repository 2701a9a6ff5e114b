"""Read and write whole files: atomically, with checksums; errors of the disk become one sentence.

A file without a checksum passes: older runs have none, and people write tasks by hand.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from visr import strict_json
from visr.errors import UserError, short_repr
from visr.storage import new_files

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

CHECKSUM = "checksum"
"""The key of the checksum in JSON objects and in the metadata of safetensors files."""
_BLANK = "0" * 64
"""In place of the checksum while it is computed."""
_CHUNK = 1 << 20
_LARGEST_HEADER = 100_000_000
_KINDS = {
    "BOOL",
    *(f"{kind}{bits}" for kind in "UI" for bits in (8, 16, 32, 64)),
    "F16",
    "F32",
    "F64",
}
"""Of numbers in safetensors files: those that both numpy and torch have."""


class DamagedFile(ValueError):
    """A file is not as it was written; the message says what is wrong."""


class UnreadableFile(UserError):
    """The operating system does not read a file now, which says nothing of its content."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError (disk full, read-only, no permission, a link) into a UserError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        if error.errno == errno.ELOOP and error.filename:
            reason = f"{Path(error.filename).name} is a link to another place"
        raise UserError(
            f"Cannot write {path}: {reason}; free some space or choose another place."
        ) from error


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a file that cannot be read into a UserError."""
    try:
        yield
    except OSError as error:
        raise UnreadableFile(
            f"Cannot read {path}: {error.strerror or error}; check its name and its permissions."
        ) from None
    except UnicodeDecodeError:
        raise UserError(
            f"{path} is damaged: it is not text; restore it or make it again."
        ) from None


def sha256(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# ------------------------------------------------------------------------------------- bytes


def write_bytes(path: Path, *content: bytes | memoryview) -> None:
    """Write atomically: to a new file with a temporary name, sync, rename, sync the directory."""
    with writing(path), new_files.replacing(path) as file:
        file.writelines(content)


def read_bytes(path: Path, most: int) -> bytes:
    """All of a regular file of at most `most` bytes."""
    with reading(path), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(size + 1) if size <= most else None
        if content is None:
            raise UserError(f"{path} is larger than {most:,} bytes; it is not one of ours.")
        if len(content) > size and not size:  # as those of /proc, which may never end
            raise OSError(errno.EINVAL, "Its size is unknown", str(path))
        return content


def open_regular(path: Path) -> IO[bytes]:
    """A regular file, or an OSError: reading a pipe may block, and a device may never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        new_files.require_regular(descriptor, path)
    except OSError:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")


# -------------------------------------------------------------------------------------- JSON


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON atomically; objects get a checksum. Equal content gives equal bytes."""
    if isinstance(content, dict):
        content = {**content, CHECKSUM: _checksum_of_json(content)}
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """The content of a JSON file without its checksum, or a UserError that says what is wrong."""
    text = read_bytes(path, strict_json.LARGEST)
    try:
        content = strict_json.parse(text)
        if not isinstance(content, dict) or CHECKSUM not in content:
            return content
        is_intact = content[CHECKSUM] == _checksum_of_json(content)
    except UnicodeDecodeError:
        raise UserError(
            f"{path} is damaged: it is not text; restore it or make it again."
        ) from None
    except ValueError as error:
        reason = "" if isinstance(error, json.JSONDecodeError) else f" that visr reads ({error})"
        raise UserError(
            f"{path} is damaged: it is not JSON{reason}; restore it or make it again."
        ) from None
    if not is_intact:
        raise UserError(
            f"{path} is not as it was written (its checksum does not match): restore it or make it again; "
            f'if you changed it yourself, remove its line "{CHECKSUM}".'
        )
    return {k: v for k, v in content.items() if k != CHECKSUM}


def _checksum_of_json(content: dict[str, Any]) -> str:
    """SHA-256 of the values except the checksum; it does not depend on order or layout."""
    plain = strict_json.parse(json.dumps({k: v for k, v in content.items() if k != CHECKSUM}))
    return sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")))


# ------------------------------------------------------------------------------- safetensors


def write_tensors(path: Path, content: bytes) -> None:
    """Write a safetensors file atomically; its checksum is SHA-256 of all of it, with zeros in its place."""
    end = 8 + int.from_bytes(content[:8], "little")
    tensors = strict_json.parse(content[8:end], _LARGEST_HEADER)
    body = memoryview(content)[end:]
    words = tensors.pop("__metadata__", {})
    digest = hashlib.sha256(_header({**words, CHECKSUM: _BLANK}, tensors))
    digest.update(body)
    write_bytes(path, _header({**words, CHECKSUM: digest.hexdigest()}, tensors), body)


def read_tensors(path: Path, remedy: str, mapped: str = "") -> dict[str, Tensor]:
    """The tensors of a safetensors file; damage is a UserError that ends with the remedy.

    The tensor named `mapped` is read from the disk wherever it is used, so it need not fit into memory.
    """
    import safetensors

    try:
        return read_checked_tensors(path, mapped)[0]
    except (OSError, safetensors.SafetensorError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); {remedy}.") from None


def read_checked_tensors(path: Path, mapped: str = "") -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file; DamagedFile if it is not as it was written."""
    import safetensors

    with _checked(path) as (name, metadata), safetensors.safe_open(name, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    return {key: x if key == mapped else x.clone() for key, x in tensors.items()}, metadata


def read_checked_arrays(path: Path) -> tuple[dict[str, NDArray], dict[str, str]]:
    """The same as arrays of numpy."""
    import safetensors

    with _checked(path) as (name, metadata), safetensors.safe_open(name, framework="np") as file:
        return {key: file.get_tensor(key) for key in file.keys()}, metadata  # noqa: SIM118


def write_arrays(path: Path, record: Any) -> None:
    """Write the arrays of a dataclass into one safetensors file."""
    import numpy as np
    import safetensors.numpy

    arrays = {name: np.ascontiguousarray(array) for name, array in vars(record).items()}
    write_tensors(path, safetensors.numpy.save(arrays))


def read_arrays(path: Path) -> dict[str, NDArray]:
    """The arrays of a file that a report draws; a ValueError if it is damaged."""
    import safetensors

    try:
        return read_checked_arrays(path)[0]
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from None


@contextlib.contextmanager
def _checked(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A name of the open file, which is as it was written, and its metadata.

    The name stays that of this file if another one replaces it; safetensors takes no path that is not UTF-8.
    """
    with open_regular(path) as file:
        metadata = _check(file)
        name = f"/dev/fd/{file.fileno()}"
        yield name if os.path.exists(name) else str(path), metadata


def check_tensors(path: Path) -> None:
    """Raise `DamagedFile` if a safetensors file is not as it was written."""
    with open_regular(path) as file:
        _check(file)


def _check(file: IO[bytes]) -> dict[str, str]:
    """The metadata, if the content fits its checksum."""
    header, words = _read_header(file)
    recorded = words.get(CHECKSUM)
    if recorded is None:
        return words
    digest = hashlib.sha256(header.replace(recorded.encode(), _BLANK.encode(), 1))
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    if digest.hexdigest() != recorded:
        raise DamagedFile("its checksum does not match its content")
    return words


def tensor_metadata(path: Path, most: int = _LARGEST_HEADER) -> dict[str, str]:
    """The metadata of a safetensors file; `DamagedFile` if its header cannot be read or is too large."""
    with open_regular(path) as file:
        return _read_header(file, most)[1]


def _header(words: dict[str, str], tensors: dict[str, Any]) -> bytes:
    """Length and JSON header, padded with spaces to a multiple of eight bytes.

    Metadata is sorted, so that equal content gives equal files; safetensors writes it in any order.
    """
    whole = {"__metadata__": dict(sorted(words.items())), **tensors}
    text = json.dumps(whole, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _read_header(file: IO[bytes], most: int = _LARGEST_HEADER) -> tuple[bytes, dict[str, str]]:
    """Length and JSON header as bytes, and the metadata in it."""
    length, whole = file.read(8), os.fstat(file.fileno()).st_size
    size = int.from_bytes(length, "little")
    if size > min(whole - 8, most):
        raise DamagedFile("its header is cut short")
    if whole > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):  # perhaps a sparse file
        raise DamagedFile(f"its {whole:,} bytes do not fit into the memory of this machine")
    text = file.read(size)
    try:
        header = strict_json.parse(text, most)
    except ValueError:
        raise DamagedFile("its header is not JSON") from None
    words = header.pop("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(words, dict) or not all(isinstance(word, str) for word in words.values()):
        raise DamagedFile("its metadata is not an object of texts")
    for name, tensor in header.items():
        if not isinstance(tensor, dict) or str(tensor.get("dtype")) not in _KINDS:
            raise DamagedFile(f"{short_repr(name)} is not a tensor of numbers that visr reads")
    return length + text, words
