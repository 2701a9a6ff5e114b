"""Functions that make or damage files before a command runs."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch

from visr.storage.files import read_json
from visr.storage.run_dir import RunDir
from visr.training import checkpoint

Given = Callable[[Path], None]


def snapshot(path: Path) -> dict[str, bytes | None]:
    """Content of every file below a directory; None for directories."""
    return {
        str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in path.rglob("*")
    }


def remove_checkpoints(tmp: Path) -> None:
    shutil.rmtree(tmp / "run" / "checkpoints")


def truncate_checkpoints(tmp: Path) -> None:
    for file in RunDir(tmp / "run").checkpoints():
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def overwrite_checkpoints(tmp: Path) -> None:
    for file in RunDir(tmp / "run").checkpoints():
        file.write_bytes(b"\x80\x04garbage" * 1000)


def newer_checkpoint(tmp: Path) -> None:
    newest = checkpoint.newest(RunDir(tmp / "run"))
    tensors, counts = checkpoint.load(newest)
    metadata = {"visr": json.dumps(counts | {"format": 2})}
    newest.write_bytes(safetensors.torch.save(tensors, metadata=metadata))


def config_with(change: Callable[[dict[str, Any]], Any]) -> Given:
    def given(tmp: Path) -> None:
        content = read_json(
            tmp / "run" / "config.json"
        )  # without its checksum, as editors are told
        change(content)
        (tmp / "run" / "config.json").write_text(json.dumps(content))

    return given


def truncate_config(tmp: Path) -> None:
    text = (tmp / "run" / "config.json").read_text()
    (tmp / "run" / "config.json").write_text(text[: len(text) // 2])


def binary_metrics(tmp: Path) -> None:
    (tmp / "run" / "metrics.csv").write_bytes(b"num_steps,psi_loss\n\xff\xfe\x00,1\n")


def array(values: Any) -> Given:
    return lambda tmp: np.save(tmp / "reward.npy", values, allow_pickle=True)


def text(name: str, content: str) -> Given:
    def given(tmp: Path) -> None:
        (tmp / name).write_text(content)

    return given


def task_with(**changes: Any) -> Given:
    def given(tmp: Path) -> None:
        content: dict[str, Any] = {
            "format": 1, "name": "goal", "env": "visr/Grid-v0", "w": [1.0, 0, 0, 0, 0],
            "method": "by hand", "r_squared": 0.5, "condition_number": None,
            "standard_error": [0.0] * 5, "num_steps": 100, "num_rewarded": 1,
            "reward": [1.0] + [0.0] * 99,
        }  # fmt: skip
        (tmp / "task.json").write_text(json.dumps(content | changes))

    return given


def truncated_task(tmp: Path) -> None:
    task_with()(tmp)
    whole = (tmp / "task.json").read_text()
    (tmp / "task.json").write_text(whole[: len(whole) // 2])


def empty_directory(tmp: Path) -> None:
    (tmp / "empty").mkdir()


def both(*steps: Given) -> Given:
    """Several steps, one after the other."""

    def given(tmp: Path) -> None:
        for step in steps:
            step(tmp)

    return given


def binary(name: str) -> Given:
    """A file of bytes that are not text."""
    return _bytes(name, b"\x80\x04\xff\xfe\x00garbage" * 50)


def saved_task(tmp: Path) -> None:
    """A task in the run, named goal."""
    task_with()(tmp)
    (tmp / "run" / "tasks").mkdir(exist_ok=True)
    (tmp / "task.json").rename(tmp / "run" / "tasks" / "goal.json")


def dataset(**arrays: Any) -> Given:
    """data.npz, as numpy saves it; objects are pickled by numpy itself."""
    return lambda tmp: np.savez(tmp / "data.npz", allow_pickle=True, **arrays)


def header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    """The header of an .npy file of that shape, without data."""
    file = io.BytesIO()
    promise = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, promise)
    return file.getvalue()


def header_only(name: str) -> Given:
    """An .npy file whose header claims 10^12 numbers."""
    return _bytes(name, header((10**6, 10**6)))


def dataset_of_headers(tmp: Path) -> None:
    """data.npz whose arrays are headers without data."""
    with zipfile.ZipFile(tmp / "data.npz", "w") as archive:
        for name in ("observations", "rewards"):
            archive.writestr(f"{name}.npy", header((10**12,)))


def dataset_declaring_gigabytes(tmp: Path) -> None:
    """data.npz whose directory declares two gigabytes in a few bytes."""
    with zipfile.ZipFile(tmp / "data.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("observations", "rewards"):
            archive.writestr(f"{name}.npy", header((2**28,)))
        archive.filelist[0].file_size = 2**31


def checkpoint_with_long_header(tmp: Path) -> None:
    """Checkpoints whose header claims a length of 1 GB."""
    for file in RunDir(tmp / "run").checkpoints():
        file.write_bytes(struct.pack("<Q", 10**9) + b"{}")


def checkpoint_without_data(tmp: Path) -> None:
    """Checkpoints whose header declares a tensor of 10^12 numbers; no data follow."""
    tensor = {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}
    text = json.dumps({"__metadata__": {"visr": '{"format": 1}'}, "x": tensor}).encode()
    for file in RunDir(tmp / "run").checkpoints():
        file.write_bytes(struct.pack("<Q", len(text)) + text)


def config_fields(section: str, **values: Any) -> Given:
    """The run's config.json with these fields changed."""
    return config_with(lambda content: content["config"][section].update(values))


def _bytes(name: str, content: bytes) -> Given:
    def given(tmp: Path) -> None:
        (tmp / name).write_bytes(content)

    return given


def renamed(old: str, new: str) -> Given:
    """Rename a file."""

    def given(tmp: Path) -> None:
        (tmp / old).rename(tmp / new)

    return given


def directory(name: str) -> Given:
    """A directory where a file is expected."""
    return lambda tmp: (tmp / name).mkdir()
