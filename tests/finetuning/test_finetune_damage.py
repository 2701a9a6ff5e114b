"""`visr finetune --resume` reports damaged and missing files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

import visr
from visr.cli import main
from visr.storage.run_dir import RunDir

SETTINGS: dict[str, Any] = {"num_steps": 960, "checkpoint_every": 320, "updates_per_round": 1}
PIECE = "000000000320.safetensors"


@pytest.fixture(scope="module")
def whole(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fine-tuning that was stopped before its last checkpoint."""
    run = visr.load(trained)
    tuned = run.finetune(
        run.infer("goal:2,3"), out=tmp_path_factory.mktemp("tuned") / "run", **SETTINGS
    )
    tuned.directory.checkpoints()[-1].unlink()
    return tuned.directory.path


def changed(file: Path, **fields: Any) -> None:
    """Change values of a JSON file and remove its checksum, as an attacker would."""
    content = json.loads(file.read_text()) | fields
    content.pop("checksum", None)
    file.write_text(json.dumps(content))


def sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The error of `--resume`; no file has changed."""
    files = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["finetune", "--resume", str(run)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert files == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    return err


@pytest.mark.parametrize(
    "content",
    [
        *("[1]", "7", "{}", '{"before": null}', '{"before": 7}'),
        '{"before": {"fraction_of_optimal": "x", "value": 0}}',
        '{"before": {"fraction_of_optimal": NaN, "value": 0}}',
        '{"before": {"fraction_of_optimal": 0, "value": 0, "more": NaN}}',
    ],
)
def test_a_damaged_score_from_before_is_refused_before_training(
    content: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = RunDir(shutil.copytree(whole, tmp_path / "run"))
    run.finetuned.write_text(content)
    assert "finetuned.json is damaged" in sentence(run.path, capsys)


def test_saved_tasks_with_huge_numbers_are_refused(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = RunDir(shutil.copytree(whole, tmp_path / "run"))
    changed(run.finetune, saved=[[10**400] * 5])
    assert "finetune.json is damaged" in sentence(run.path, capsys)


def test_a_reward_of_another_grid_is_refused_at_once(
    whole: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = RunDir(shutil.copytree(whole, tmp_path / "run"))
    changed(run.task("task"), reward=[1.0, 2.0])
    assert "has a reward over 2 states" in sentence(run.path, capsys)
    words = ["finetune", str(trained), "--task", str(run.task("task"))]
    assert main([*words, "--out", str(tmp_path / "new")]) == 2
    assert "has a reward over 2 states" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def _with(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[dict[str, Tensor]], Any]:
    return lambda piece: piece | {name: change(piece[name])}


WRONG: dict[str, Callable[[dict[str, Tensor]], Any]] = {
    "other names": lambda piece: {"a": torch.zeros(3)},
    "no axes": lambda piece: {name: torch.zeros(()) for name in piece},
    "other types": lambda piece: {name: x.double() for name, x in piece.items()},
    "more features": _with("w", lambda w: torch.zeros(len(w), 9)),
    "fewer unrolls": _with("w", lambda w: w[:1].clone()),
    "longer unrolls": _with("reward", lambda x: torch.cat([x, x])),
    "cells out of the grid": _with("observation", lambda x: torch.full_like(x, 10**6)),
    "unknown actions": _with("action", lambda x: torch.full_like(x, 99)),
    "unknown actions before": _with("previous_action", lambda x: torch.full_like(x, -2)),
    "rewards of nan": _with("reward", lambda x: torch.full_like(x, torch.nan)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_replay_file_with_wrong_content_is_reported(
    wrong: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = RunDir(shutil.copytree(whole, tmp_path / "run"))
    piece = run.replay / PIECE
    content = WRONG[wrong](safetensors.torch.load_file(piece))
    safetensors.torch.save_file(content, str(piece))
    assert f"{PIECE} does not fit its run" in sentence(run.path, capsys)


@pytest.mark.parametrize("lost", [PIECE, ""])
def test_a_missing_replay_file_is_reported(
    lost: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = RunDir(shutil.copytree(whole, tmp_path / "run"))
    if lost:
        (run.replay / lost).unlink()
    else:
        shutil.rmtree(run.replay)
    assert "does not hold all steps before step 640" in sentence(run.path, capsys)


def test_an_undamaged_run_resumes(whole: Path, tmp_path: Path):
    run = shutil.copytree(whole, tmp_path / "run")
    assert main(["finetune", "--resume", str(run)]) == 0
