"""`visr pretrain` without a terminal, output or home, on one CPU, with any clock."""

from __future__ import annotations

import ast
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from visr import pretraining
from visr.cli import main
from visr.storage.files import read_json
from visr.storage.run_dir import RunDir
from visr.storage.tables import read_rows
from visr.training.driver import Status

ROOT = Path(__file__).parents[3]
TRAIN = "pretrain --preset smoke --num-steps 1280 --evaluate-every 100000 --out {out}"
VISR = f"{sys.executable} -m visr"

PLACES = {
    "under nohup, without a terminal": f"nohup {VISR} {TRAIN} < /dev/null",
    "in a pipe whose reader leaves": f"{VISR} {TRAIN} | head -1",
    "with stdout closed": f"{VISR} {TRAIN} >&-",
    "with everything closed": f"{VISR} {TRAIN} --json <&- >&- 2>&-",
    "on one CPU, without a home": f"env -u HOME {{pin}} {VISR} {TRAIN}",
    "with a home that nobody may write": f"HOME=/proc {VISR} {TRAIN}",
}


def without_progress(text: str) -> str:
    """Standard error without the lines of progress, which a slow machine prints every ten seconds."""
    return re.sub(r"(?m)^pre-training: .*\n", "", text)


@pytest.mark.parametrize("place", PLACES)
def test_training_works_without_terminal_output_or_home(place: str, tmp_path: Path):
    pin = f"taskset -c {min(os.sched_getaffinity(0))}" if shutil.which("taskset") else ""
    line = PLACES[place].format(out=tmp_path / "run", pin=pin)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    said = without_progress(done.stderr).replace("nohup: ignoring input\n", "")
    hint = f"Next: visr infer {tmp_path / 'run'} --reward boxes:7\n"
    assert done.returncode == 0, done
    assert said in ("", hint), done  # empty where nobody can read it
    run = RunDir.open(tmp_path / "run")
    assert run.last_row(run.metrics)["num_steps"] == 1_280


WALL_CLOCK = {"paper/reproduce/ledger.py": 2, "training/metric_loggers.py": 2}
"""Start and end of a job, shown in the ledger; times of TensorBoard. Nothing is computed from them."""


def test_only_the_ledger_and_tensorboard_read_the_wall_clock():
    """Durations come from `time.monotonic` and `time.perf_counter`."""
    found: dict[str, int] = {}
    for path in sorted((ROOT / "visr").rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if is_wall_clock(node)]
        if calls:
            found[path.relative_to(ROOT / "visr").as_posix()] = len(calls)
    assert found == WALL_CLOCK


def is_wall_clock(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute):
        return False
    name = ast.unparse(node)
    return name in ("time.time", "time.time_ns", "time.localtime") or name.startswith("datetime.")


def test_a_clock_that_jumps_changes_no_result(
    trained: Path, tmp_path: Path, tiny: Any, monkeypatch: pytest.MonkeyPatch
):
    import time

    jumps = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: 1e9 + (-1) ** next(jumps) * 1e8)
    run = pretraining.start(tmp_path / "run", tiny())
    for name in ("metrics.csv", "evaluation.csv", "checkpoints/000000020480.safetensors"):
        assert (run.path / name).read_bytes() == (trained / name).read_bytes()
    os.utime(run.metrics, (4e9, 4e9))  # files with a time in the future
    assert main(["pretrain", "--resume", str(run.path)]) == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # TensorBoard's
def test_a_running_training_survives_the_removal_of_its_files(tmp_path: Path, tiny: Any):
    run, seen = RunDir(tmp_path / "run"), []

    def remove(status: Status) -> None:
        seen.append(status.num_steps)
        if status.num_steps == 6_400:
            for path in (run.config_file, run.metrics, run.timing, run.evaluation):
                path.unlink(missing_ok=True)
            shutil.rmtree(run.path / "checkpoints")
            shutil.rmtree(run.tensorboard)

    pretraining.start(run.path, tiny(), observe=remove)
    assert RunDir.open(run.path).config() == tiny()
    assert [row["num_steps"] for row in read_rows(run.metrics)][-1] == 20_480
    assert main(["infer", str(run.path), "--reward", "row"]) == 0
    assert main(["pretrain", "--resume", str(run.path)]) == 0


def test_a_full_disk_is_one_sentence_and_the_last_checkpoint_stays(trained: Path, tmp_path: Path):
    """RLIMIT_FSIZE acts like a full disk, and needs no root."""
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    (run.path / "checkpoints" / "000000020480.safetensors").unlink()
    (earlier,) = run.checkpoints()
    before, config = earlier.read_bytes(), read_json(run.config_file)

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    command = [sys.executable, "-m", "visr", "pretrain", "--resume", str(run.path)]
    done = subprocess.run(command, cwd=ROOT, preexec_fn=small_files, capture_output=True, text=True)
    assert done.returncode == 2, done
    assert without_progress(done.stderr).count("\n") == 1
    assert "File too large; free some space or choose another place" in done.stderr
    assert earlier.read_bytes() == before
    assert read_json(run.config_file) == config
    assert [p.name for p in earlier.parent.iterdir()] == [earlier.name]
    assert main(["pretrain", "--resume", str(run.path)]) == 0
    assert run.metrics.read_bytes() == (trained / "metrics.csv").read_bytes()
