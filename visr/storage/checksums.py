"""Checksums inside JSON and safetensors files, to detect changes after writing.

A file without a checksum passes: older runs have none, and people write tasks by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import IO, Any

from visr.storage import safe_open

KEY = "checksum"
_BLANK = "0" * 64
"""In place of the checksum while it is computed."""
_CHUNK = 1 << 20
_LARGEST_HEADER = 100_000_000


class DamagedFile(ValueError):
    """A file is not as it was written; the message says what is wrong."""


def of_json(content: dict[str, Any]) -> str:
    """SHA-256 of the values except the checksum; it does not depend on order or layout."""
    plain = json.loads(json.dumps({k: v for k, v in content.items() if k != KEY}))
    return of_text(json.dumps(plain, sort_keys=True, separators=(",", ":")))


def verified(content: Any) -> Any:
    """The content of a JSON file without its checksum; `DamagedFile` if that does not match."""
    if not isinstance(content, dict) or KEY not in content:
        return content
    if content[KEY] != of_json(content):
        raise DamagedFile("its checksum does not match")
    return {k: v for k, v in content.items() if k != KEY}


def with_checksum(content: bytes) -> tuple[bytes, memoryview]:
    """A safetensors file with its checksum in the metadata, in two pieces: header and tensors.

    SHA-256 of the whole file, with zeros in place of the checksum.
    """
    end = 8 + int.from_bytes(content[:8], "little")
    header, body = json.loads(content[8:end]), memoryview(content)[end:]
    blank = _head(dict(header), _BLANK)
    digest = hashlib.sha256(blank)
    digest.update(body)
    return _head(header, digest.hexdigest()), body


def check(path: Path) -> None:
    """Raise `DamagedFile` if a safetensors file is not as it was written."""
    with safe_open.to_read(path) as file:
        head, recorded = _read_head(file)
        if recorded is None:
            return
        digest = hashlib.sha256(head.replace(recorded.encode(), _BLANK.encode(), 1))
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != recorded:
        raise DamagedFile("its checksum does not match its content")


def metadata(path: Path) -> dict[str, Any]:
    """The metadata of a safetensors file; `DamagedFile` if it cannot be read."""
    with safe_open.to_read(path) as file:
        head, _ = _read_head(file)
    return json.loads(head[8:]).get("__metadata__", {})


def of_text(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _head(header: dict[str, Any], checksum: str) -> bytes:
    """Length and JSON header, padded with spaces to a multiple of eight bytes.

    Metadata is sorted, so that equal content gives equal files; safetensors writes it in any order.
    """
    words = {**header.pop("__metadata__", {}), KEY: checksum}
    header = {"__metadata__": dict(sorted(words.items())), **header}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _read_head(file: IO[bytes]) -> tuple[bytes, str | None]:
    length = file.read(8)
    size = int.from_bytes(length, "little")
    if size > min(os.fstat(file.fileno()).st_size - 8, _LARGEST_HEADER):
        raise DamagedFile("its header is cut short")
    text = file.read(size)
    try:
        metadata = json.loads(text).get("__metadata__", {})
        recorded = metadata.get(KEY)
    except (AttributeError, RecursionError, ValueError):
        raise DamagedFile("its header is not JSON") from None
    if recorded is not None and not isinstance(recorded, str):
        raise DamagedFile("its checksum is not text")
    return length + text, recorded
