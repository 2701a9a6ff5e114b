"""Paths that are not UTF-8, as file systems allow: every command works with them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.explorer.launching import serving
from visr.cli import main
from visr.explorer import running_explorers
from visr.storage.files import check_tensors

BYTES = os.fsdecode(b"caf\xe9 \xff")
"""Latin-1, and a byte that is in no text of UTF-8."""


@pytest.fixture(scope="module")
def run(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run whose name is not UTF-8, in such a directory, with a task."""
    place = tmp_path_factory.mktemp("strange") / BYTES
    try:
        shutil.copytree(trained, place / BYTES)
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    assert main(["infer", str(place / BYTES), "--reward", "row", "--name", "goal"]) == 0
    return place / BYTES


@pytest.mark.parametrize(
    "words",
    [
        "pretrain --resume RUN --num-steps 25k",
        "pretrain --preset smoke --num-steps 2560 --out RUN/../new --json",
        "infer RUN --reward col",
        "evaluate RUN goal",
        "evaluate RUN",
        "finetune RUN --task goal --num-steps 64",
        "play RUN --task goal --max-steps 3 --video RUN/play.gif",
        "play RUN --task goal --max-steps 3 --video RUN/play.mp4",
        "task list RUN",
        "task mix RUN goal 1 --out RUN/tasks/mixed.json",
        "export RUN goal RUN/goal.onnx",
        "report RUN",
        "report RUN/..",
        "refine RUN goal --num-updates 2",
        "explore RUN --export RUN/atlas.html --skills 2",
        "pack RUN RUN/../packed.safetensors",
    ],
)
def test_every_command_works(words: str, run: Path, capsys: pytest.CaptureFixture[str]):
    code = main([word.replace("RUN", str(run)) for word in words.split()])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert "damaged" not in err
    (out + err).encode()  # a terminal takes it


def test_a_plan_is_run_and_reported_at_such_a_path(run: Path, capsys: pytest.CaptureFixture[str]):
    plan = str(run.parent / "plan")
    small = ["--only", "visr", "--seeds", "0", "--num-steps", "1300"]
    for words in (["reproduce", "grid", *small, "--out", plan], ["report", plan]):
        code = main(words)
        out, err = capsys.readouterr()
        assert code == 0, err
        (out + err).encode()  # a terminal takes it


def test_an_explorer_is_found_by_such_a_path(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with serving(run) as launched:
        launch = running_explorers.Launch(os.getpid(), launched.server.url, str(run))
        with running_explorers.registered(launch):
            assert main(["explore", str(run), "--stop"]) == 0
    assert str(launched.server.port) in capsys.readouterr().out


def test_a_packed_model_opens_by_such_a_path(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(run.parent)
    packed = run.parent / "packed.safetensors"
    assert main(["pack", str(run), str(packed)]) == 0
    check_tensors(packed)
    assert main(["infer", str(packed), "--reward", "row"]) == 0
