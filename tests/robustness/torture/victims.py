"""What is killed: commands on small runs, how each goes on, and what it must have come to in the end."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.hub_stub import HubStub
from tests.robustness.torture.processes import LEAVING, Ended, visr
from visr import sharing
from visr.errors import UserError
from visr.storage import packed_models
from visr.storage.files import check_tensors, read_json

SMOKE = (
    *("--preset", "smoke", "--height", "7", "--width", "7", "--num-steps", "7680"),
    *("--checkpoint-every", "1280", "--log-every", "1280", "--evaluate-every", "7680"),
)
FINETUNE = ("--num-steps", "1920", "--checkpoint-every", "480")
PLAN = ("reproduce", "grid", "--only", "visr", "--seeds", "0", "--num-steps", "1300")
REPLAY = (
    *("visr/Grid-v0", "--preset", "replay-grid", "--height", "4", "--width", "4"),
    *("--num-envs", "8", "--unroll-length", "16", "--num-updates", "24", "--num-steps", "2048"),
    *("--warmup-steps", "512", "--checkpoint-every", "512", "--log-every", "512"),
    *("--evaluate-every", "2048"),
)
SIMPLE = ("MinAtar/Breakout-v1", "--algorithm", "simple", "--num-steps", "100")

_VARYING = {"timing.csv", "cluster.csv", "ledger.csv", "run.lock", "ledger.lock"}
"""Clocks are in them, or they tell of the present."""
_PROGRESS = re.compile(r"[a-z-]+: \d+%, |refining: |visr: .*; going on from step [\d,]+ instead\.$")
"""Lines that long training prints now and then, and the warning of a damaged checkpoint."""
_STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)
_FOR_PEOPLE = {"tensorboard", "logs"}


@dataclass(frozen=True)
class Victim:
    """A command to kill: `command(place)` begins or, whatever a kill has left there, goes on."""

    name: str
    share: int
    """Of all kills, in relation to the others."""
    needs_run: bool
    """Whether a trained run with a task must be there first."""
    command: Callable[[Path], tuple[str, ...]]
    has_workers: bool = False
    """Whether it starts processes."""
    leaving: float = LEAVING
    """Seconds in which they must have ended; Ray's agents look only now and then whether theirs is gone."""


def pretrain(settings: tuple[str, ...], *how: str) -> Callable[[Path], tuple[str, ...]]:
    """Train in place/run, or resume what is there."""

    def command(place: Path) -> tuple[str, ...]:
        run = place / "run"
        if (run / "config.json").exists():
            return ("pretrain", "--resume", str(run), *how)
        return ("pretrain", *settings, "--out", str(run), *how)

    return command


def finetune(settings: tuple[str, ...]) -> Callable[[Path], tuple[str, ...]]:
    """Fine-tune for the task `old`, or resume what is there."""

    def command(place: Path) -> tuple[str, ...]:
        tuned = place / "run" / "finetuned" / "old"
        if list(tuned.glob("checkpoints/*.safetensors")):
            return ("finetune", "--resume", str(tuned))
        shutil.rmtree(tuned, ignore_errors=True)  # as `--resume` tells: nothing was learnt yet
        return ("finetune", str(place / "run"), "--task", "old", *settings)

    return command


def on_run(*words: str) -> Callable[[Path], tuple[str, ...]]:
    """A verb on place/run."""
    return lambda place: (words[0], str(place / "run"), *words[1:])


def pack(place: Path) -> tuple[str, ...]:
    """Pack place/run into a file."""
    return ("pack", str(place / "run"), str(place / "packed" / "model.safetensors"))


def mix(place: Path) -> tuple[str, ...]:
    """Mix the task with itself."""
    return ("task", "mix", str(place / "run"), "old", "1", "old", "2", "--name", "mixed")


def export(place: Path) -> tuple[str, ...]:
    """Write the task's policy for ONNX."""
    return ("export", str(place / "run"), "old", str(place / "run" / "old.onnx"))


def explore(place: Path) -> tuple[str, ...]:
    """Write the explorer's atlas as a page."""
    return ("explore", str(place / "run"), "--export", str(place / "atlas.html"), "--skills", "2")


def play(place: Path) -> tuple[str, ...]:
    """Record a film."""
    video = str(place / "run" / "old.gif")
    return ("play", str(place / "run"), "--task", "old", "--max-steps", "5", "--video", video)


def pull(place: Path) -> tuple[str, ...]:
    """Download a model from a stand-in for a hub; a model that is there already is not pulled again."""
    model = place / "run" / "model.safetensors"
    os.environ["HF_ENDPOINT"] = _hub().url
    return ("list", "models") if model.exists() else ("pull", "a/model", str(model))


@functools.cache
def _hub() -> HubStub:
    hub = HubStub()
    hub.repos["a/model"] = {sharing.FILE: (packed_models.PLACE / "grid.safetensors").read_bytes()}
    return hub


def reproduce(place: Path) -> tuple[str, ...]:
    """A plan of one training and its evaluation."""
    return (*PLAN, "--out", str(place / "run"))


VICTIMS = {
    victim.name: victim
    for victim in (
        Victim("pretrain", 46, False, pretrain(SMOKE)),
        Victim("pretrain-2", 24, False, pretrain(SMOKE, "--num-processes", "2"), True),
        Victim("replay", 24, False, pretrain(REPLAY)),
        Victim("simple", 6, False, pretrain(SIMPLE)),
        Victim("finetune", 24, True, finetune(FINETUNE)),
        Victim("refine", 10, True, on_run("refine", "old", "--num-updates", "200")),
        Victim("infer", 18, True, on_run("infer", "--reward", "boxes:7", "--name", "new")),
        Victim("evaluate", 16, True, on_run("evaluate", "old")),
        Victim("report", 16, True, on_run("report")),
        Victim("pack", 12, True, pack),
        Victim("task", 2, True, mix),
        Victim("export", 4, True, export),
        Victim("play", 4, True, play),
        Victim("pull", 4, True, pull),
        Victim("explore", 4, True, explore),
        Victim("reproduce", 14, False, reproduce, True),
        Victim("cluster", 6, False, pretrain(SMOKE, "--cluster", "local"), leaving=180.0),
    )
}


def prepare(place: Path) -> None:
    """A trained run with the task `old`, made without disturbance."""
    run = str(place / "run")
    for words in (
        ("pretrain", *SMOKE, "--out", run),
        ("infer", run, "--reward", "goal:2,3", "--name", "old"),
    ):
        ended = visr(*words, place=place)
        assert ended.code == 0, ended


def results(place: Path, partial: bool = False) -> dict[str, str]:
    """A digest of every file that must be the same however often its maker was killed.

    `partial` includes the temporary files that a killed process may leave.
    """
    return {
        path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file()
        and path.name not in _VARYING
        and (partial or path.suffix != ".partial")
        and not _FOR_PEOPLE & set(path.relative_to(place).parts)
    }


def state(place: Path) -> str:
    """A digest of all that a command can find in a place; of clock times only their number."""
    found = results(place, partial=True)
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_dir():
            found[name] = "directory"
        elif path.name in _VARYING:
            found[name] = re.sub(r"[0-9a-f.:-]+", "0", path.read_text())
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()


def refuse_torn_files(place: Path) -> None:
    """Whatever bears its final name is whole, at any moment."""
    for path in (place / "run").rglob("*"):
        try:
            if path.suffix == ".safetensors":
                check_tensors(path)
            elif path.suffix == ".json":
                read_json(path)
        except (OSError, UserError):
            if path.exists():  # else a job that outlives its runner for a moment has let go of it
                raise


def said_well(ended: Ended) -> bool:
    """Success, one sentence with exit code 2, or an end by a signal; never a traceback."""
    if "Traceback" in ended.err:
        return False
    if ended.code < 0:  # the signal's own effect
        return bool(ended.struck)
    if ended.code == 2:
        said = [line for line in ended.err.splitlines() if not _PROGRESS.match(line)]
        return len(said) == 1 and said[0].startswith("visr: ")
    return ended.code in (0, *_STOPPED) or (ended.code == 1 and "failed:" in ended.err)
