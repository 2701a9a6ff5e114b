"""Every file of a run cut short or with a flipped bit, then the verbs: they go on, or say so in words."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from visr.cli import main
from visr.run_dir import RunDir, append_rows, write_json
from visr.training import checkpoint

VERBS = {
    "resume": "pretrain --resume {}",
    "infer": "infer {} --reward goal:1,1 --name probe",
    "evaluate": "evaluate {} old",
    "report": "report {}",
    "list": "task list {}",
}
WEIGHTS = {"resume", "infer", "evaluate"}
"""Verbs that read a checkpoint."""


@pytest.fixture(scope="module")
def whole(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a task, its evaluation, and the files that other worlds and plans leave."""
    place = tmp_path_factory.mktemp("whole") / "run"
    shutil.copytree(trained, place, ignore=shutil.ignore_patterns("tensorboard"))
    run = RunDir(place)
    assert main(["infer", str(place), "--reward", "goal:2,3", "--name", "old"]) == 0
    assert main(["evaluate", str(place), "old"]) == 0
    append_rows(run.online, ["num_steps", "num_episodes", "mean_return"], [[2560, 3, 0.5]])
    write_json(run.job, {"format": 1, "agent": "visr", "game": "visr/Grid-v0", "seed": 0})
    return place


def cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def flipped(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]


def empty(content: bytes, draw: random.Random) -> bytes:
    return b""


FILES = [
    *("config.json", "metrics.csv", "timing.csv", "online.csv", "evaluation.csv", "job.json"),
    *("portrait.safetensors", "tasks/old.json", "tasks/old.evaluation.json"),
    *("checkpoints/000000015360.safetensors", "checkpoints/000000020480.safetensors"),
]


@pytest.mark.parametrize("damage", [cut, flipped, empty])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_never_costs_more_than_a_sentence(
    name: str,
    damage: Callable[[bytes, random.Random], bytes],
    whole: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    draw = random.Random(f"{name} {damage.__name__}")
    verbs = [v for v in VERBS if v != "report" or not name.startswith("checkpoints")]
    for verb in draw.sample(verbs, 3):  # `make torture` tries them all
        run = tmp_path / verb
        shutil.copytree(whole, run)
        spoil(run / name, damage, draw)
        before = contents(run)
        code = main(VERBS[verb].format(run).split())
        said = capsys.readouterr()
        assert code in (0, 2), said
        assert code == 0 or said.err.count("\n") == 1, said.err
        assert "Traceback" not in said.err
        if code == 2:
            assert name.rpartition("/")[2] in said.err  # it is named
            assert contents(run) == before  # and nothing is lost on top


def spoil(path: Path, damage: Callable[[bytes, random.Random], bytes], draw: random.Random) -> None:
    path.write_bytes(damage(path.read_bytes(), draw))


def contents(run: Path) -> dict[str, bytes]:
    return {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file()}


@pytest.mark.parametrize("damage", [cut, flipped, empty])
def test_a_damaged_newest_checkpoint_falls_back_loudly_and_ends_bit_identical(
    damage: Callable[[bytes, random.Random], bytes],
    trained: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
):
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    newest, draw = checkpoint.newest(run), random.Random(4)
    spoil(newest, damage, draw)
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


def test_a_row_that_was_changed_is_told_of(
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


def test_a_file_changed_by_hand_is_taken_once_its_checksum_is_removed(
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


def test_runs_from_before_there_were_checksums_still_open(trained: Path, tmp_path: Path):
    import safetensors.torch

    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    newest = checkpoint.newest(run)
    tensors, counts = checkpoint.load(newest)
    metadata = {"visr": json.dumps({"format": 1, **counts})}
    newest.write_bytes(safetensors.torch.save(tensors, metadata=metadata))
    content = json.loads(run.config_file.read_text())
    del content["checksum"]
    run.config_file.write_text(json.dumps(content))
    sound = checkpoint.newest_sound(run)
    assert sound.path == newest
    assert all(torch.equal(sound.tensors[name], tensors[name]) for name in tensors)
