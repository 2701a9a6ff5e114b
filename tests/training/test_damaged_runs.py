"""Errors around training are reported, and leave no incomplete run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from visr import pretraining
from visr.errors import UserError
from visr.storage.files import read_json
from visr.storage.run_dir import RunDir
from visr.training import checkpoint
from visr.training.loop import Loop
from visr.training.metrics import MetricsWriter


def test_a_checkpoint_that_does_not_fit_its_config_is_refused(trained: Path, tmp_path: Path):
    path = tmp_path / "run"
    shutil.copytree(trained, path)
    config = read_json(path / "config.json")
    config["config"]["agent"]["num_features"] = 6
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"does not fit its run's config\.json"):
        pretraining.resume(path)


def test_no_run_is_left_if_its_first_checkpoint_cannot_be_written(
    tmp_path: Path, tiny: Any, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: Any, **__: Any) -> Path:
        raise UserError("Cannot write: No space left on device; free some space.")

    monkeypatch.setattr(checkpoint, "save", full)
    with pytest.raises(UserError, match="No space left"):
        pretraining.start(tmp_path / "run", tiny())
    assert not (tmp_path / "run").exists()


def test_a_metric_that_is_nan_stops_training_and_is_not_written(tmp_path: Path, tiny: Any):
    run = RunDir.create(tmp_path / "run", tiny())
    rows = MetricsWriter(run)
    rows.add([{"psi_loss": torch.tensor(float("nan"))}])
    with pytest.raises(UserError, match="psi_loss is nan"):
        rows.write(1280, 1, {})
    assert not run.metrics.exists()


def test_training_restores_the_settings_of_torch(tiny: Any):
    torch.set_num_threads(2)
    loop = Loop(tiny(num_steps=1_280))
    for _ in loop.rounds():
        assert torch.get_num_threads() == 1
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert threads == 2
    assert torch.tensor(1e-40).mul(1).item() != 0  # denormal numbers are not flushed
