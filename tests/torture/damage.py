"""`python -m tests.torture.damage`: every file of a run cut, emptied and flipped, then every verb.

Each either does its work or says in one sentence what is damaged; what is not damaged stays as it was.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import visr
from visr.cli import main as cli
from visr.run_dir import RunDir, append_rows, write_json

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
    "infer": "infer {} --reward pole_angle --name probe",
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
        f"infer {place} --reward pole_angle --name old",
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


def main() -> int:
    """All files, all damages, all verbs; the figures go to stdout as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.damage", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", type=int, default=3, help="of each damage, at other places")
    chosen = parser.parse_args()
    figures = {"seed": chosen.seed, "damaged": 0, "refused_in_a_sentence": 0, "losses": 0}
    draw = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory(prefix="visr-damage-") as scratch:
        place = Path(scratch)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert cli(["pretrain", "--preset", "smoke", *SMALL, "--out", f"{place}/trained"]) == 0
            grid, pole = grid_run(place / "trained", place / "grid"), pole_run(place / "pole")
        for whole, verbs in ((grid, ON_THE_GRID), (pole, ELSEWHERE)):
            for name in files(whole):
                for damage in (cut, flipped, empty):
                    for verb, line in verbs.items():
                        for _ in range(1 if damage is empty else chosen.times):
                            copy = place / "copy"
                            shutil.rmtree(copy, ignore_errors=True)
                            try:
                                told = suffer(whole, copy, name, damage, line, draw)
                            except AssertionError as error:
                                print(
                                    f"LOSS: {name} {damage.__name__}, {verb}: {error}",
                                    file=sys.stderr,
                                )
                                figures["losses"] += 1
                                continue
                            figures["damaged"] += 1
                            figures["refused_in_a_sentence"] += bool(told)
    print(json.dumps(figures))
    return int(figures["losses"] > 0)


if __name__ == "__main__":
    sys.exit(main())
