"""Safetensors files of a stranger: types, sizes and numbers that do not fit are one sentence."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from visr.cli import main
from visr.errors import UserError
from visr.storage.files import (
    DamagedFile,
    check_tensors,
    read_checked_arrays,
    read_json,
    write_json,
)
from visr.storage.records.imagined import Imagined
from visr.storage.records.library import Library, PractisedTask
from visr.storage.run_dir import RunDir


@pytest.fixture(scope="module")
def refined(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a refined task."""
    run = shutil.copytree(trained, tmp_path_factory.mktemp("refined") / "run")
    assert main(["infer", str(run), "--reward", "row", "--name", "goal"]) == 0
    assert main(["refine", str(run), "goal", "--num-updates", "20"]) == 0
    return run


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn, torch.complex64])
def test_numbers_that_numpy_lacks_are_refused_wherever_they_are(kind: torch.dtype, tmp_path: Path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors.torch.save({"x": torch.zeros(2, dtype=kind)}))
    with pytest.raises(DamagedFile, match="'x' is not a tensor of numbers that visr reads"):
        read_checked_arrays(path)


@pytest.mark.parametrize(
    "change",
    [lambda x: x * np.nan, lambda x: x + np.inf, Tensor.double, Tensor.bool, Tensor.bfloat16],
    ids=["NaN", "infinity", "float64", "bool", "bfloat16"],
)
def test_weights_of_a_refined_task_are_finite_float32(
    change: Callable[[Tensor], Tensor],
    refined: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    run = shutil.copytree(refined, tmp_path / "run")
    file = run / "tasks" / read_json(RunDir(run).task("goal-refined"))["refinement"]["file"]
    weights = {k: change(x) for k, x in safetensors.torch.load_file(file).items()}
    file.write_bytes(safetensors.torch.save(weights))
    for words in (["evaluate"], ["refine", "--resume", "--num-updates", "2"]):
        assert main([words[0], str(run), "goal-refined", *words[1:]]) == 2
        assert "refine the task again" in capsys.readouterr().err.replace(
            "refine it", "refine the task"
        )


def test_a_reward_over_other_states_is_refused_by_every_command(
    refined: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = shutil.copytree(refined, tmp_path / "run")
    file = RunDir(run).task("goal")
    write_json(file, read_json(file) | {"reward": [1.0, 2.0]})
    for words in (["evaluate", "goal"], ["refine", "goal"], ["finetune", "--task", "goal"]):
        assert main([words[0], str(run), *words[1:]]) == 2
        assert "has a reward over 2 states" in capsys.readouterr().err


def test_a_sparse_file_larger_than_the_memory_is_not_read(trained: Path, tmp_path: Path):
    """An archive of a few bytes unpacks to it; a checksum of it would take hours."""
    file = shutil.copy(RunDir(trained).checkpoints()[-1], tmp_path)
    os.truncate(file, 2**42)
    with pytest.raises(DamagedFile, match="do not fit into the memory"):
        check_tensors(Path(file))


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="Linux has such files")
@pytest.mark.parametrize("name", ["/proc/self/pagemap", "/proc/self/maps", "/proc/kmsg"])
def test_files_of_unknown_size_are_not_read(name: str, tmp_path: Path):
    (tmp_path / "task.json").symlink_to(name)
    with pytest.raises(UserError, match=r"task\.json"):
        read_json(tmp_path / "task.json")


def test_more_imagined_examples_than_can_be_drawn_are_refused(tmp_path: Path):
    frames, numbers = np.zeros((1_000, 2, 1, 2, 2), np.uint8), np.zeros(1)
    path = tmp_path / "imagined.safetensors"
    Imagined(frames, frames, np.ones(1_000, np.int64), *[numbers] * 5).save(path)
    with pytest.raises(UserError, match="real has shape"):
        Imagined.load(path)


def test_goals_of_a_library_have_one_number_for_each_name(tmp_path: Path):
    path, goal = tmp_path / "library.json", PractisedTask("a", "goal", 0, 0.5, (1.0, 2.0))
    library = Library(10, (goal,), ("x", "y"))
    library.save(path)
    assert Library.load(path) == library
    for wrong in (replace(goal, observation=(1.0,)), replace(goal, observation=(1.0,) * 3)):
        replace(library, tasks=(goal, wrong)).save(path)
        with pytest.raises(UserError, match="not one number for each field name"):
            Library.load(path)
