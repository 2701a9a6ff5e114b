"""Python files in the working directory or in a run are never imported, whatever the command, and libraries
read no settings there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from visr import working_directory
from visr.cli import VERBS, main

MODULES = ("torch", "json", "numpy", "visr", "sitecustomize", "usercustomize", "ray", "gymnasium")
VISR = Path(sys.executable).with_name("visr")
COMMANDS = {
    "pretrain": "pretrain --resume . --num-steps 25000 --num-processes 2",
    "infer": "infer . --reward row",
    "refine": "refine . goal --num-updates 2",
    "finetune": "finetune . --task goal --num-steps 64",
    "evaluate": "evaluate . goal",
    "play": "play . --task goal --max-steps 3",
    "task": "task list .",
    "export": "export . goal skill.onnx",
    "pack": "pack . packed.safetensors",
    "push": "push . nobody/nothing",
    "pull": "pull nobody/nothing",
    "reproduce": "reproduce grid --only visr --seeds 0 --num-steps 1300 --out plan",
    "report": "report .",
    "explore": "explore --list",
    "bench": "bench grid --seconds 0.1",
    "doctor": "doctor CartPole-v1",
    "list": "list envs",
}
UNREACHABLE = ("push", "pull")
"""There is no hub here."""
NEW_RUNS = {
    "simple": "MinAtar/Breakout-v1 --algorithm simple --num-steps 100",
    "rainbow": "MinAtar/Breakout-v1 --algorithm rainbow --num-steps 400",
    "dqn": "CartPole-v1 --algorithm dqn --num-steps 400",
    "replay": "visr/Grid-v0 --preset replay-grid --num-steps 2048 --num-updates 2",
    "wandb": "visr/Grid-v0 --preset smoke --num-steps 2560 --wandb",
    "cluster": "visr/Grid-v0 --preset smoke --num-steps 2560 --cluster local",
}


@pytest.fixture
def planted(trained: Path, tmp_path: Path) -> Path:
    """A run with Python files that leave a mark when they are imported."""
    run = shutil.copytree(trained, tmp_path / "run")
    assert main(["infer", str(run), "--reward", "row", "--name", "goal"]) == 0
    for place in (run, run / "tasks"):
        place.mkdir(exist_ok=True)
        for name in MODULES:
            (place / f"{name}.py").write_text(f"open({str(tmp_path / 'MARK')!r}, 'a').write('x')\n")
        (place / "matplotlibrc").write_bytes(
            b"\xff"
        )  # importing Matplotlib raises if it reads this
        (place / "wandb").mkdir()
        (place / "wandb" / "settings").write_text("[default]\nentity = thief\n")
    return run


def execute(words: list[str], place: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VISR_TRUST")}
    environment["HF_ENDPOINT"] = "http://127.0.0.1:1"  # no hub
    environment["WANDB_MODE"] = "offline"
    return subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True)


def test_every_verb_has_a_command_here():
    assert COMMANDS.keys() == VERBS.keys()


@pytest.mark.parametrize("verb", COMMANDS)
def test_no_verb_imports_files_of_the_working_directory(verb: str, planted: Path, tmp_path: Path):
    done = execute([str(VISR), *COMMANDS[verb].split()], planted)
    assert done.returncode == (2 if verb in UNREACHABLE else 0), done.stderr
    assert not (tmp_path / "MARK").exists()


def test_workers_of_a_resumed_run_import_no_files_of_it(planted: Path, tmp_path: Path):
    words = ["pretrain", "--resume", ".", "--num-steps", "100000", "--num-processes", "2"]
    done = execute([str(VISR), *words], planted)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "MARK").exists()


@pytest.mark.parametrize("kind", NEW_RUNS)
def test_no_training_reads_the_working_directory(kind: str, planted: Path, tmp_path: Path):
    words = ["pretrain", *NEW_RUNS[kind].split(), "--out", str(tmp_path / "new")]
    done = execute([str(VISR), *words], planted)
    assert done.returncode == 0, done.stderr
    assert "thief" not in done.stderr + done.stdout
    assert "Loading settings" not in done.stderr
    assert b"thief" not in b"".join(f.read_bytes() for f in tmp_path.rglob("new/wandb/*/*.wandb"))
    assert not (tmp_path / "MARK").exists()


def test_the_explorer_reads_no_files_of_the_working_directory(planted: Path, tmp_path: Path):
    words = [str(VISR), "explore", ".", "--export", str(tmp_path / "atlas.html"), "--skills", "2"]
    done = execute(words, planted)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "MARK").exists()


@pytest.mark.parametrize("module", MODULES)
def test_a_child_process_imports_nothing_from_the_working_directory(
    module: str, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(planted)
    monkeypatch.setattr(sys, "path", ["", ".", str(planted), *sys.path])
    environment = working_directory.child_environment()
    words = [*working_directory.child_command("visr")[:2], "-c", f"import {module}"]
    subprocess.run(words, env=environment, check=module in sys.modules, capture_output=True)
    assert not (tmp_path / "MARK").exists()
