"""A changed or truncated file is detected; a file without a checksum passes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from visr.errors import UserError
from visr.storage.files import (
    CHECKSUM,
    DamagedFile,
    check_tensors,
    read_json,
    tensor_metadata,
    write_json,
    write_tensors,
)

CONTENT = {"format": 1, "w": [0.6, 0.8], "name": "goal", "r_squared": 1e-07, "reward": None}
ARRAYS = {"a": np.arange(5, dtype=np.float32), "b": np.ones((2, 3))}


def flips(content: bytes) -> list[bytes]:
    """The file with each of its bits flipped in turn."""
    flipped = []
    for at in range(len(content)):
        for bit in range(8):
            other = bytearray(content)
            other[at] ^= 1 << bit
            flipped.append(bytes(other))
    return flipped


def test_no_flipped_bit_changes_a_value_of_a_json_file(tmp_path: Path):
    path = tmp_path / "task.json"
    write_json(path, CONTENT)
    whole, refused = path.read_bytes(), 0
    for flipped in flips(whole):
        path.write_bytes(flipped)
        try:
            read = read_json(path)
        except UserError:
            refused += 1
            continue
        # only the layout or the key `checksum` may differ
        assert {name: read.get(name) for name in CONTENT} == CONTENT
        assert len(read) - len(CONTENT) in (0, 1)
    assert refused > 0.7 * 8 * len(whole)


def test_no_flipped_bit_changes_a_tensor(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, safetensors.numpy.save(ARRAYS, metadata={"visr": "{}"}))
    for flipped in flips(path.read_bytes()):
        path.write_bytes(flipped)
        try:
            check_tensors(path)
            found = safetensors.numpy.load(flipped)
        except (DamagedFile, safetensors.SafetensorError):
            continue
        # only the key `checksum` may differ
        assert all(np.array_equal(found[name], ARRAYS[name]) for name in ARRAYS)
        assert CHECKSUM not in tensor_metadata(path)


def test_a_tensor_file_cut_anywhere_is_damaged(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, safetensors.numpy.save(ARRAYS))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedFile):
            check_tensors(path)


def test_a_checksum_changes_no_tensor_and_keeps_the_metadata(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, safetensors.numpy.save(ARRAYS, metadata={"b": "2", "a": "1"}))
    check_tensors(path)
    found = safetensors.numpy.load_file(path)
    assert all(np.array_equal(found[name], ARRAYS[name]) for name in ARRAYS)
    words = tensor_metadata(path)
    assert list(words) == ["a", "b", "checksum"]  # sorted, which safetensors does not do
    assert (words["a"], words["b"]) == ("1", "2")


def test_a_file_without_a_checksum_passes(tmp_path: Path):
    safetensors.numpy.save_file(ARRAYS, tmp_path / "x.safetensors")
    check_tensors(tmp_path / "x.safetensors")
    (tmp_path / "task.json").write_text(json.dumps(CONTENT))
    assert read_json(tmp_path / "task.json") == CONTENT


def test_the_checksum_of_json_ignores_layout_and_order(tmp_path: Path):
    path = tmp_path / "task.json"
    write_json(path, CONTENT)
    items = list(json.loads(path.read_text()).items())
    random.Random(1).shuffle(items)
    path.write_text(json.dumps(dict(items), indent=7))
    assert read_json(path) == CONTENT


HEADERS = (
    *(b"[]", b"3", b"[" * 9_999),
    *(b'{"__metadata__": 3}', b'{"__metadata__": {"checksum": 3}}'),
)


@pytest.mark.parametrize("header", HEADERS)
def test_a_hostile_header_is_damage(header: bytes, tmp_path: Path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(DamagedFile):
        check_tensors(path)
    path.write_bytes((2**63).to_bytes(8, "little") + header)  # that much must not be allocated
    with pytest.raises(DamagedFile):
        check_tensors(path)
