"""Metadata and tables of a stranger's run: wrong types, depth, names and counts are one sentence."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from visr.cli import main
from visr.errors import UserError
from visr.storage.files import read_json, tensor_metadata
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows, read_rows, rows_until

DEEP = "[" * 10_000
WRONG: list[Any] = [DEEP, "{}", "[]", "null", "3", '"x"', '{"format": 1, "num_steps": 1.5}',
                    '{"format": 1, "num_steps": [1]}', '{"format": true}', '{"format": 1, "n": NaN}',
                    '{"format": 1, "n": 1, "n": 2}', 3, ["x"], None, {"a": "b"}]  # fmt: skip


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> RunDir:
    """A run to tamper with, with one checkpoint."""
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    for older in run.checkpoints()[:-1]:
        older.unlink()
    return run


def with_metadata(path: Path, **words: Any) -> None:
    """Replace the metadata of a safetensors file, without a checksum; values may be of any type."""
    content = path.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:end])
    kept = {k: v for k, v in header.get("__metadata__", {}).items() if k != "checksum"}
    header["__metadata__"] = kept | words
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[end:])


def sentence(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What a command says that must not end in a traceback."""
    assert main([str(word) for word in words]) in (0, 2)
    return capsys.readouterr().err


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: repr(value)[:30])
def test_wrong_counts_of_a_checkpoint_are_damage(
    wrong: Any, run: RunDir, capsys: pytest.CaptureFixture[str]
):
    with_metadata(run.checkpoints()[-1], visr=wrong)
    for words in (["infer", run.path, "--reward", "row"], ["pretrain", "--resume", run.path]):
        assert ".safetensors" in sentence(capsys, *words)


@pytest.mark.parametrize("wrong", [*WRONG, '{"../../secret.csv": "x"}', '{"\\u001b[31m": "x"}'],
                         ids=lambda value: repr(value)[:30])  # fmt: skip
def test_wrong_tables_of_a_checkpoint_name_no_other_file(
    wrong: Any,
    run: RunDir,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
):
    with_metadata(run.checkpoints()[-1], tables=wrong)
    sentence(capsys, "report", run.path)
    assert "secret" not in caplog.text
    assert "31m" not in caplog.text
    assert run.changed_tables(run.checkpoints()[-1]) == []


@pytest.mark.parametrize("header", [b"[" * 10_000, b"[]", b"3", b'{"__metadata__": [1]}', b"\xff",
                                    b'{"__metadata__": {"a": {}}}'])  # fmt: skip
def test_a_wrong_header_is_damage(header: bytes, tmp_path: Path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ValueError, match=r"header|metadata"):
        tensor_metadata(path)


def test_weights_that_are_not_finite_are_refused_and_the_checkpoint_before_is_used(
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
):
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    for number, path in enumerate(reversed(run.checkpoints())):
        content = safetensors.numpy.load(path.read_bytes())
        name = next(
            k for k in content if k.startswith("learner.agent.") and content[k].dtype == np.float32
        )
        content[name] = content[name].copy()
        content[name].flat[0] = np.nan if number else np.inf
        words = {k: v for k, v in tensor_metadata(path).items() if k != "checksum"}
        path.write_bytes(safetensors.numpy.save(content, metadata=words))
        if number == 0:
            assert main(["infer", str(run.path), "--reward", "row"]) == 0
            assert "holds NaN or infinity" in caplog.text
    assert "holds NaN or infinity" in sentence(capsys, "infer", run.path, "--reward", "row")


@pytest.mark.parametrize("count", ["inf", "nan", "-1", "1.5", "1e400", "1e30", ""])
def test_a_count_that_is_no_whole_number_is_damage(
    count: str, run: RunDir, capsys: pytest.CaptureFixture[str]
):
    text = run.metrics.read_text()
    run.metrics.write_text(f"{text}{count},{text.splitlines()[-1].partition(',')[2]}\n")
    for words in (["pretrain", "--resume", run.path], ["report", run.path]):
        assert "metrics.csv is damaged" in sentence(capsys, *words)
    with pytest.raises(UserError, match="damaged"):
        read_rows(run.metrics)
    with pytest.raises(UserError, match="damaged"):
        rows_until(run.metrics, 100)


def test_other_columns_may_be_nan_or_infinite(tmp_path: Path):
    append_rows(tmp_path / "a.csv", ["num_steps", "loss"], [[1, "nan"], [2, "inf"]])
    assert [row["num_steps"] for row in read_rows(tmp_path / "a.csv")] == [1, 2]


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": 1e999}', '{"a": NaN}', DEEP])
def test_every_json_file_is_read_strictly(text: str, tmp_path: Path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=r"a\.json is damaged: it is not JSON that visr reads \("):
        read_json(tmp_path / "a.json")
