"""What may be wrong with files: functions that damage or make one before a command runs."""

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
    """Every directory and every byte below a place."""
    return {
        str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in path.rglob("*")
    }


def no_checkpoint(tmp: Path) -> None:
    shutil.rmtree(tmp / "run" / "checkpoints")


def cut_checkpoint(tmp: Path) -> None:
    for file in RunDir(tmp / "run").checkpoints():
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def garbage_checkpoint(tmp: Path) -> None:
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


def cut_config(tmp: Path) -> None:
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


def cut_task(tmp: Path) -> None:
    task_with()(tmp)
    whole = (tmp / "task.json").read_text()
    (tmp / "task.json").write_text(whole[: len(whole) // 2])


def empty_directory(tmp: Path) -> None:
    (tmp / "empty").mkdir()


def both(*steps: Given) -> Given:
    """One after the other."""

    def given(tmp: Path) -> None:
        for step in steps:
            step(tmp)

    return given


def binary(name: str) -> Given:
    """Bytes that are no text."""
    return _bytes(name, b"\x80\x04\xff\xfe\x00garbage" * 50)


def saved_task(tmp: Path) -> None:
    """A task that the run keeps, named goal."""
    task_with()(tmp)
    (tmp / "run" / "tasks").mkdir(exist_ok=True)
    (tmp / "task.json").rename(tmp / "run" / "tasks" / "goal.json")


def dataset(**arrays: Any) -> Given:
    """data.npz, as numpy saves it; objects are pickled by numpy itself."""
    return lambda tmp: np.savez(tmp / "data.npz", allow_pickle=True, **arrays)


def header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    """The beginning of an .npy file of that shape, and nothing behind it."""
    file = io.BytesIO()
    promise = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, promise)
    return file.getvalue()


def promising(name: str) -> Given:
    """An array of 1e12 numbers, says its header."""
    return _bytes(name, header((10**6, 10**6)))


def promising_dataset(tmp: Path) -> None:
    """data.npz whose arrays are headers alone."""
    with zipfile.ZipFile(tmp / "data.npz", "w") as archive:
        for name in ("observations", "rewards"):
            archive.writestr(f"{name}.npy", header((10**12,)))


def bomb(tmp: Path) -> None:
    """data.npz whose directory declares two gigabytes in a few bytes."""
    with zipfile.ZipFile(tmp / "data.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("observations", "rewards"):
            archive.writestr(f"{name}.npy", header((2**28,)))
        archive.filelist[0].file_size = 2**31


def promising_checkpoint(tmp: Path) -> None:
    """A safetensors header of a gigabyte, says its length."""
    for file in RunDir(tmp / "run").checkpoints():
        file.write_bytes(struct.pack("<Q", 10**9) + b"{}")


def hollow_checkpoint(tmp: Path) -> None:
    """A tensor of 1e12 numbers, says the header; no data follow."""
    tensor = {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}
    text = json.dumps({"__metadata__": {"visr": '{"format": 1}'}, "x": tensor}).encode()
    for file in RunDir(tmp / "run").checkpoints():
        file.write_bytes(struct.pack("<Q", len(text)) + text)


def asking_for(section: str, **values: Any) -> Given:
    """The run's config.json with these fields changed."""
    return config_with(lambda content: content["config"][section].update(values))


def _bytes(name: str, content: bytes) -> Given:
    def given(tmp: Path) -> None:
        (tmp / name).write_bytes(content)

    return given


def renamed(old: str, new: str) -> Given:
    """A file under another name."""

    def given(tmp: Path) -> None:
        (tmp / old).rename(tmp / new)

    return given


def directory(name: str) -> Given:
    """A directory where a file is expected."""
    return lambda tmp: (tmp / name).mkdir()
