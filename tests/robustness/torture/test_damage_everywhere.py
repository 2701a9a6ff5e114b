"""Damage every file of a run, then run a verb: it works, or prints one sentence."""

from __future__ import annotations

import json
import logging
import random
import shutil
from pathlib import Path

import pytest
import torch

from tests.robustness.torture.damage import DAMAGES, ON_THE_GRID, Damage, files, grid_run, suffer
from visr.cli import main
from visr.storage.run_dir import RunDir
from visr.training import checkpoint

FILES = [
    *("config.json", "metrics.csv", "timing.csv", "online.csv", "evaluation.csv", "job.json"),
    *("portrait.safetensors", "tasks/old.json", "tasks/old.evaluation.json"),
    *("checkpoints/000000015360.safetensors", "checkpoints/000000020480.safetensors"),
]


@pytest.fixture(scope="module")
def whole(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with every kind of file."""
    return grid_run(trained, tmp_path_factory.mktemp("whole") / "run")


def test_the_list_of_damaged_files_is_complete(whole: Path):
    assert files(whole) == sorted(FILES)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_a_verb_on_a_damaged_file_works_or_prints_one_sentence(
    name: str, damage: Damage, whole: Path, tmp_path: Path
):
    draw = random.Random(f"{name} {damage.__name__}")
    is_read = not name.startswith("checkpoints")  # by `visr report`
    verbs = [verb for verb in ON_THE_GRID if verb != "report" or is_read]
    verb = draw.choice(verbs)  # `make torture` runs every verb three times
    suffer(whole, tmp_path / verb, name, damage, ON_THE_GRID[verb], draw)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_checkpoint_falls_back_with_a_warning_and_ends_bit_identical(
    damage: Damage,
    trained: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
):
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    newest, draw = checkpoint.newest(run), random.Random(4)
    newest.write_bytes(damage(newest.read_bytes(), draw))
    with caplog.at_level(logging.WARNING, "visr"):
        assert main(["infer", str(run.path), "--reward", "row", "--json"]) == 0  # readers too
    (loud,) = [r.getMessage() for r in caplog.records]
    assert str(newest) in loud
    assert "is damaged or cut short" in loud
    assert "going on from step 15,360 instead" in loud
    assert newest.exists()  # a reader moves nothing
    assert main(["pretrain", "--resume", str(run.path), "--json"]) == 0
    capsys.readouterr()
    for file in (
        "metrics.csv",
        "evaluation.csv",
        "portrait.safetensors",
        f"checkpoints/{newest.name}",
    ):
        assert (run.path / file).read_bytes() == (trained / file).read_bytes(), file
    names = {p.name for p in newest.parent.iterdir()}
    assert names == {p.name for p in (trained / "checkpoints").iterdir()}


def test_a_damaged_checkpoint_is_kept_aside_until_the_next_is_written(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    newest = checkpoint.newest(run)
    newest.write_bytes(b"spoilt")
    whole = run.checkpoints()[0].read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    assert main(["pretrain", "--resume", str(run.path)]) == 2
    assert newest.with_name(f"{newest.name}.damaged").read_bytes() == b"spoilt"
    assert [p.read_bytes() for p in run.checkpoints()] == [whole]


def test_a_changed_row_of_metrics_gives_a_warning(
    trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    header, row, *rows = run.metrics.read_text().splitlines(keepends=True)
    steps, updates, value, *rest = row.split(",")
    changed = value.replace(value[-1], "7" if value[-1] != "7" else "8")
    run.metrics.write_text("".join([header, ",".join([steps, updates, changed, *rest]), *rows]))
    for line in (["report", str(run.path)], ["pretrain", "--resume", str(run.path)]):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "visr"):
            assert main(line) == 0
        (loud,) = [r.getMessage() for r in caplog.records]
        assert f"{run.metrics} is not as it was written" in loud


def test_a_file_changed_by_hand_is_accepted_without_its_checksum(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    content = json.loads(run.config_file.read_text())
    content["config"]["training"]["num_steps"] = 25_600
    run.config_file.write_text(json.dumps(content))
    assert main(["pretrain", "--resume", str(run.path)]) == 2
    sentence = capsys.readouterr().err
    assert 'if you changed it yourself, remove its line "checksum"' in sentence
    del content["checksum"]
    run.config_file.write_text(json.dumps(content))
    assert main(["pretrain", "--resume", str(run.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_steps"] == 25_600


def test_runs_without_checksums_still_open(trained: Path, tmp_path: Path):
    import safetensors.torch

    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    newest = checkpoint.newest(run)
    tensors, counts = checkpoint.load(newest)
    metadata = {"visr": json.dumps({"format": 1, **counts})}
    newest.write_bytes(safetensors.torch.save(tensors, metadata=metadata))
    content = json.loads(run.config_file.read_text())
    del content["checksum"]
    run.config_file.write_text(json.dumps(content))
    path, found, _ = checkpoint.newest_intact(run)
    assert path == newest
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
