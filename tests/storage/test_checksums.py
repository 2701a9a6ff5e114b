"""No flipped bit and no cut passes for what was written; what never had a checksum passes as it is."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from visr.errors import UserError
from visr.storage import checksums
from visr.storage.files import read_json, write_json, write_tensors

CONTENT = {"format": 1, "w": [0.6, 0.8], "name": "goal", "r_squared": 1e-07, "reward": None}
ARRAYS = {"a": np.arange(5, dtype=np.float32), "b": np.ones((2, 3))}


def flips(content: bytes) -> list[bytes]:
    """A file in all ways that one bit can spoil it."""
    spoilt = []
    for at in range(len(content)):
        for bit in range(8):
            other = bytearray(content)
            other[at] ^= 1 << bit
            spoilt.append(bytes(other))
    return spoilt


def test_no_flipped_bit_of_a_json_file_is_taken_for_a_value(tmp_path: Path):
    path = tmp_path / "task.json"
    write_json(path, CONTENT)
    whole, refused = path.read_bytes(), 0
    for spoilt in flips(whole):
        path.write_bytes(spoilt)
        try:
            read = read_json(path)
        except UserError:
            refused += 1
            continue
        # only the layout, or the checksum's own name, may be another
        assert {name: read.get(name) for name in CONTENT} == CONTENT
        assert len(read) - len(CONTENT) in (0, 1)
    assert refused > 0.7 * 8 * len(whole)


def test_no_flipped_bit_of_a_tensor_file_passes(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, safetensors.numpy.save(ARRAYS, metadata={"visr": "{}"}))
    for spoilt in flips(path.read_bytes()):
        path.write_bytes(spoilt)
        try:
            checksums.check(path)
            found = safetensors.numpy.load(spoilt)
        except (checksums.DamagedFile, safetensors.SafetensorError):
            continue
        # only the checksum's own name may be another
        assert all(np.array_equal(found[name], ARRAYS[name]) for name in ARRAYS)
        assert checksums.KEY not in checksums.metadata(path)


def test_a_tensor_file_cut_anywhere_is_broken(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, safetensors.numpy.save(ARRAYS))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(checksums.DamagedFile):
            checksums.check(path)


def test_sealing_changes_no_tensor_and_keeps_the_words(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, safetensors.numpy.save(ARRAYS, metadata={"b": "2", "a": "1"}))
    checksums.check(path)
    found = safetensors.numpy.load_file(path)
    assert all(np.array_equal(found[name], ARRAYS[name]) for name in ARRAYS)
    words = checksums.metadata(path)
    assert list(words) == ["a", "b", "checksum"]  # in one order, whatever safetensors thinks
    assert (words["a"], words["b"]) == ("1", "2")


def test_what_never_had_a_checksum_passes(tmp_path: Path):
    safetensors.numpy.save_file(ARRAYS, tmp_path / "x.safetensors")
    checksums.check(tmp_path / "x.safetensors")
    (tmp_path / "task.json").write_text(json.dumps(CONTENT))
    assert read_json(tmp_path / "task.json") == CONTENT


def test_layout_and_order_are_free(tmp_path: Path):
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
def test_a_strangers_header_is_broken_and_nothing_worse(header: bytes, tmp_path: Path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(checksums.DamagedFile):
        checksums.check(path)
    path.write_bytes((2**63).to_bytes(8, "little") + header)  # nothing is allocated for it
    with pytest.raises(checksums.DamagedFile):
        checksums.check(path)
