"""Fine-tuning starts from the newest checkpoint, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from visr.cli import main
from visr.storage.run_dir import RunDir
from visr.training import checkpoint


def test_a_damaged_newest_checkpoint_is_written_again_before_fine_tuning(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    newest = checkpoint.newest(run)
    newest.write_bytes(b"spoilt")
    assert main(["infer", str(run.path), "--reward", "goal:2,3", "--name", "goal"]) == 0
    capsys.readouterr()
    words = ["finetune", str(run.path), "--task", "goal", "--num-steps", "64"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "does not start from the older step 15,360" in said
    assert f"write {newest} again with `visr pretrain --resume {run.path}`." in said
    assert not run.finetuned_run("").exists()
    assert main(["pretrain", "--resume", str(run.path)]) == 0
    assert main(words) == 0
