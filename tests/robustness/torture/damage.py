"""`python -m tests.robustness.torture.damage`: every file of a run cut, emptied and flipped, then every verb.

Each either does its work or says in one sentence what is damaged; what is not damaged stays as it was.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import visr
from visr.cli import main as cli
from visr.storage.files import write_json
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows

Damage = Callable[[bytes, random.Random], bytes]

ON_THE_GRID = {
    "resume": "pretrain --resume {}",
    "infer": "infer {} --reward goal:1,1 --name probe",
    "evaluate": "evaluate {} old",
    "report": "report {}",
    "list": "task list {}",
}
ELSEWHERE = {
    "resume": "pretrain --resume {}",
    "infer": "infer {} --reward angle --name probe",
    "evaluate": "evaluate {} old --episodes 1",
    "report": "report {}",
}
SMALL = ("--num-steps", "2560", "--num-envs", "32", "--checkpoint-every", "1280")


def cut(content: bytes, draw: random.Random) -> bytes:
    """The beginning of a file."""
    return content[: draw.randrange(len(content))]


def flipped(content: bytes, draw: random.Random) -> bytes:
    """One bit is another."""
    at = draw.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]


def empty(_content: bytes, _draw: random.Random) -> bytes:
    """Nothing, as some file systems leave after a power cut."""
    return b""


DAMAGES = (cut, flipped, empty)


def grid_run(trained: Path, place: Path) -> Path:
    """A copy of a finished run, with a task, its evaluation, and what plans and rewarded games leave."""
    shutil.copytree(trained, place, ignore=shutil.ignore_patterns("tensorboard"))
    run = RunDir(place)
    for line in (f"infer {place} --reward goal:2,3 --name old", f"evaluate {place} old"):
        assert cli(line.split()) == 0
    append_rows(run.online, ["num_steps", "num_episodes", "mean_return"], [[2560, 3, 0.5]])
    write_json(run.job, {"format": 1, "agent": "visr", "game": "visr/Grid-v0", "seed": 0})
    return place


def pole_run(place: Path) -> Path:
    """A run with a recorded sample and a phase two: where no exact model is."""
    small: dict[str, Any] = {
        "num_steps": 2_560,
        "num_envs": 32,
        "checkpoint_every": 1_280,
        "recorded_steps": 400,
    }
    visr.pretrain("CartPole-v1", out=place, **small)
    for line in (
        f"infer {place} --reward angle --name old",
        f"evaluate {place} --episodes 2 --rewarded-episodes 4 --rewarded-steps 400",
    ):
        assert cli(line.split()) == 0
    return place


def files(run: Path) -> list[str]:
    """All that can be damaged."""
    found = (p.relative_to(run) for p in sorted(run.rglob("*")) if p.is_file())
    return [p.as_posix() for p in found if p.parts[0] not in ("tensorboard", "report")]


def contents(run: Path) -> dict[str, bytes]:
    """Every file with its bytes."""
    return {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file()}


def suffer(
    whole: Path, copy: Path, name: str, damage: Damage, line: str, draw: random.Random
) -> str:
    """Damage one file of a copy, then run a verb: its word on stderr, or AssertionError."""
    shutil.copytree(whole, copy)
    (copy / name).write_bytes(damage((copy / name).read_bytes(), draw))
    before, said = contents(copy), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = cli(line.format(copy).split())
    told = said.getvalue()
    assert code in (0, 2), told
    assert "Traceback" not in told, told
    if code == 2:
        assert told.count("\n") == 1, told
        assert Path(name).name in told, f"{name} is not named: {told}"
        assert contents(copy) == before, "a refusal changed something"
    else:
        after = contents(copy)
        lost = [f for f in before if f not in after and not f.startswith("checkpoints")]
        assert not lost, f"{lost} are gone"
    return told if code == 2 else ""


def torment(whole: Path, verbs: dict[str, str], times: int, draw: random.Random) -> dict[str, int]:
    """Every file, every damage, every verb; what should not be is told on stderr."""
    figures, copy = {"damaged": 0, "refused_in_a_sentence": 0, "losses": 0}, whole.parent / "copy"
    for name, damage, verb in itertools.product(files(whole), DAMAGES, verbs):
        for _ in range(1 if damage is empty else times):
            shutil.rmtree(copy, ignore_errors=True)
            figures["damaged"] += 1
            try:
                told = suffer(whole, copy, name, damage, verbs[verb], draw)
                figures["refused_in_a_sentence"] += bool(told)
            except AssertionError as error:
                print(f"LOSS: {name} {damage.__name__}, {verb}: {error}", file=sys.stderr)
                figures["losses"] += 1
    return figures


def main() -> int:
    """The figures go to stdout as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.robustness.torture.damage", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", type=int, default=3, help="of each damage, at other places")
    parser.add_argument("--only", choices=["grid", "pole"], help="one of the two runs")
    chosen = parser.parse_args()
    draw, losses = random.Random(chosen.seed), 0
    with tempfile.TemporaryDirectory(prefix="visr-damage-") as scratch:
        place = Path(scratch)
        if chosen.only != "pole":
            with _quiet():
                line = ["pretrain", "--preset", "smoke", *SMALL, "--out", f"{place}/trained"]
                assert cli(line) == 0
                grid = grid_run(place / "trained", place / "grid")
            figures = torment(grid, ON_THE_GRID, chosen.times, draw)
            print(json.dumps({"run": "grid", "seed": chosen.seed, **figures}), flush=True)
            losses += figures["losses"]
        if chosen.only != "grid":
            with _quiet():
                pole = pole_run(place / "pole")
            figures = torment(pole, ELSEWHERE, chosen.times, draw)
            print(json.dumps({"run": "pole", "seed": chosen.seed, **figures}), flush=True)
            losses += figures["losses"]
    return int(losses > 0)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


if __name__ == "__main__":
    sys.exit(main())
