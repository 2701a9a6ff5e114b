"""Python files in the working directory or in a run are never imported, whatever the command, and libraries
read no settings there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from visr import working_directory
from visr.cli import VERBS, main
from visr.explorer import running_explorers

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
STARTS_PROCESSES = ("pretrain", "reproduce")
NEW_RUNS = {
    "simple": "MinAtar/Breakout-v1 --algorithm simple --num-steps 100",
    "rainbow": "MinAtar/Breakout-v1 --algorithm rainbow --num-steps 400",
    "dqn": "CartPole-v1 --algorithm dqn --num-steps 400",
    "replay": "visr/Grid-v0 --preset replay-grid --num-steps 2048 --num-updates 2",
    "wandb": "visr/Grid-v0 --preset smoke --num-steps 2560 --wandb",
    "cluster": "visr/Grid-v0 --preset smoke --num-steps 2560 --cluster local",
}
RUN_EACH = """
import json, os, sys
from visr.cli import main
mark, commands = json.loads(sys.argv[1])
for words, code in commands:
    sys.argv = ["visr", *words]
    assert main() == code, words
    assert not os.path.exists(mark), words
"""
"""Commands one after another in one process, which takes seconds to start; each as a shell runs it."""
IMPORT_EACH = """
import contextlib, importlib, sys
for name in sys.argv[1:]:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
"""


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


def execute_each(commands: list[tuple[str, int]], place: Path, mark: Path) -> str:
    """Run commands that end with these exit codes and import nothing that leaves a mark."""
    content = json.dumps([str(mark), [(line.split(), code) for line, code in commands]])
    done = execute([sys.executable, "-P", "-c", RUN_EACH, content], place)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def test_no_verb_imports_files_of_the_working_directory(planted: Path, tmp_path: Path):
    verbs = [verb for verb in COMMANDS if verb not in STARTS_PROCESSES]
    lines = [(COMMANDS[verb], 2 if verb in UNREACHABLE else 0) for verb in verbs]
    atlas = f"explore . --export {tmp_path / 'atlas.html'} --skills 2"
    execute_each([*lines, (atlas, 0)], planted, tmp_path / "MARK")


@pytest.mark.parametrize("verb", [*STARTS_PROCESSES, "task"])
def test_no_process_imports_files_of_the_working_directory(
    verb: str, planted: Path, tmp_path: Path
):
    done = execute([str(VISR), *COMMANDS[verb].split()], planted)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "MARK").exists()


@pytest.mark.parametrize("verb", STARTS_PROCESSES)
def test_no_process_of_ray_imports_files_of_the_working_directory(
    verb: str, planted: Path, tmp_path: Path
):
    words = COMMANDS[verb].replace("--num-processes 2", "").split()
    done = execute([str(VISR), *words, "--cluster", "local"], planted)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "MARK").exists()


def test_an_explorer_that_serves_reads_no_files_of_the_working_directory(
    planted: Path, tmp_path: Path
):
    words = [str(VISR), "explore", ".", "--port", "0", "--json"]
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VISR_TRUST")}
    with subprocess.Popen(words, cwd=planted, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        server = json.loads(process.stdout.readline())
        launch = running_explorers.Launch(process.pid, server["url"], str(planted))
        for path in ("/api/run", "/api/curves", "/api/atlas", "/static/main.js", "/json.py"):
            assert launch.ask("GET", path) in (200, 404)
        assert launch.ask("POST", "/api/stop") == 200
    assert process.returncode == 0
    assert not (tmp_path / "MARK").exists()


@pytest.mark.parametrize(
    "kinds", [[kind for kind in NEW_RUNS if kind != "cluster"], ["cluster"]], ids=["", "cluster"]
)
def test_no_training_reads_the_working_directory(kinds: list[str], planted: Path, tmp_path: Path):
    lines = [(f"pretrain {NEW_RUNS[k]} --out {tmp_path / 'new' / k}", 0) for k in kinds]
    said = execute_each(lines, planted, tmp_path / "MARK")
    assert "thief" not in said
    assert "Loading settings" not in said
    logs = tmp_path.rglob("new/wandb/wandb/*/*.wandb")
    assert b"thief" not in b"".join(log.read_bytes() for log in logs)


def test_a_child_process_imports_nothing_from_the_working_directory(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(planted)
    monkeypatch.setattr(sys, "path", ["", ".", str(planted), *sys.path])
    environment = working_directory.child_environment()
    words = [*working_directory.child_command("visr")[:2], "-c", IMPORT_EACH, *MODULES]
    subprocess.run(words, env=environment, check=True, capture_output=True)
    assert not (tmp_path / "MARK").exists()
