"""`python -m tests.robustness.torture.power_loss`: the power fails at every point of a training.

All calls that touch files are recorded. After each, the disk may hold what was synced, and any part of the
rest. Data is kept by fsync of its file only, a name by fsync of its directory only. Each such disk is written
out and opened: the last saved checkpoint, or a newer one, must be intact, with its tables and replay buffer.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from tests.robustness.torture import file_calls, victims
from tests.robustness.torture.file_calls import Call
from visr.cli import main as cli
from visr.storage.files import check_tensors
from visr.storage.run_dir import RunDir
from visr.training import checkpoint, driver

SMALL = (
    *("--preset", "smoke", "--height", "5", "--width", "5", "--num-steps", "3840"),
    *("--num-envs", "32", "--checkpoint-every", "1280", "--log-every", "1280"),
    *("--evaluate-every", "1280"),
)
RUNS = {"visr": SMALL, "replay": victims.REPLAY}
_FOR_PEOPLE = "tensorboard"
RANDOM_DISKS = 4
"""Per point, besides those that kept nothing, everything, only names, and only data."""


class Loss(Exception):
    """A disk that holds less than was promised."""


@dataclass
class File:
    """Data that was synced, and changes since: (offset, bytes), or a length to cut to."""

    synced: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def content(self, keeps: Callable[[], float]) -> bytes:
        """The data if each pending change was kept in that share."""
        data = bytearray(self.synced)
        for offset, given in self.pending:
            share = keeps()
            if given is None:
                if share:
                    data[offset:] = bytes(max(0, offset - len(data)))
                continue
            part = given[: round(share * len(given))]
            if part:
                data[len(data) :] = bytes(max(0, offset - len(data)))
                data[offset : offset + len(part)] = part
        return bytes(data)


@dataclass
class Directory:
    """Names that were synced, and changes since: a name with what it is from then on, or None."""

    synced: dict[str, File | Directory] = field(default_factory=dict)
    pending: list[dict[str, File | Directory | None]] = field(default_factory=list)

    def names(self, keeps: Callable[[], float]) -> dict[str, File | Directory]:
        """The names if each pending change was kept or not."""
        known: dict[str, File | Directory | None] = dict(self.synced)
        for change in self.pending:
            if keeps():
                known |= change
        return {name: thing for name, thing in known.items() if thing is not None}


class Disk:
    """The model of a disk: calls are applied to it one by one."""

    def __init__(self, place: Path) -> None:
        self._place, self.root = str(place), Directory()
        self._files: dict[tuple[int, int], File] = {}

    def apply(self, call: Call) -> bool:
        """Whether the call changes what the disk may hold."""
        if not self._is_ours(call.path):
            return False
        match call.kind:
            case "lock":
                return False
            case "open":
                return self._open(call)
            case "write":
                self._files[call.inode].pending.append((call.offset, call.data))
            case "truncate":
                self._files[call.inode].pending.append((call.offset, None))
            case "fsync":
                self._sync(call)
            case "mkdir":
                self._change(call.path, Directory())
            case "unlink" | "rmdir":
                self._change(call.path, None)
            case "rename" | "link":
                self._move(call)
        return True

    def _is_ours(self, path: str) -> bool:
        return f"{path}{os.sep}".startswith(self._place + os.sep) and _FOR_PEOPLE not in path.split(
            os.sep
        )

    def _find(self, path: str) -> File | Directory | None:
        thing: File | Directory | None = self.root
        inner = os.path.relpath(path, self._place)
        for part in inner.split(os.sep) if inner != "." else []:
            thing = thing.names(lambda: 1.0).get(part) if isinstance(thing, Directory) else None
        return thing

    def _above(self, path: str) -> tuple[Directory, str]:
        directory = self._find(os.path.dirname(path))
        assert isinstance(directory, Directory), path
        return directory, os.path.basename(path)

    def _open(self, call: Call) -> bool:
        known = self._find(call.path)
        is_new = known is None and bool(call.flags & os.O_CREAT)
        if is_new:
            known = File()
            self._change(call.path, known)
        if isinstance(known, File):
            self._files[call.inode] = known
            if call.flags & os.O_TRUNC:
                known.pending.append((0, None))
        return is_new or bool(call.flags & os.O_TRUNC)

    def _sync(self, call: Call) -> None:
        thing = self._find(call.path)
        if isinstance(thing, Directory):
            thing.synced, thing.pending = thing.names(lambda: 1.0), []
        else:
            file = self._files[call.inode]
            file.synced, file.pending = file.content(lambda: 1.0), []

    def _change(self, path: str, thing: File | Directory | None) -> None:
        directory, name = self._above(path)
        directory.pending.append({name: thing})

    def _move(self, call: Call) -> None:
        thing, (directory, name) = self._find(call.path), self._above(call.path)
        target, new = self._above(call.target)
        old: dict[str, File | Directory | None] = {} if call.kind == "link" else {name: None}
        if target is directory:
            directory.pending.append({**old, new: thing})
        else:
            target.pending.append({new: thing})
            directory.pending.append(old)

    def disks(self, draw: random.Random, num_random: int) -> Iterator[dict[str, bytes | None]]:
        """What the disk may hold now: files by name, with None for a directory."""
        yield _tree(self.root, lambda: 0.0, lambda: 0.0)
        yield _tree(self.root, lambda: 1.0, lambda: 1.0)
        yield _tree(self.root, lambda: 1.0, lambda: 0.0)
        yield _tree(self.root, lambda: 0.0, lambda: 1.0)
        for _ in range(num_random):
            part = lambda: draw.choice((0.0, 1.0, draw.random()))  # noqa: E731
            yield _tree(self.root, lambda: float(draw.random() < 0.5), part)


def _tree(
    directory: Directory, names: Callable[[], float], data: Callable[[], float], prefix: str = ""
) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for name, thing in directory.names(names).items():
        if isinstance(thing, File):
            found[prefix + name] = thing.content(data)
        else:
            found[prefix + name] = None
            found |= _tree(thing, names, data, f"{prefix}{name}/")
    return found


Event = Call | int
"""A call, or the step of a checkpoint that was saved: from here on it is promised."""


def record(place: Path, *words: str) -> list[Event]:
    """The events of one command, in which files below `place` are touched."""
    events: list[Event] = []
    save = driver.save

    def saved(run: RunDir, trainer: driver.Trainer, *rest: driver.RowWriter) -> None:
        save(run, trainer, *rest)
        events.append(trainer.num_steps)

    watched = file_calls.watched(lambda _: None, events.append, lambda _: True)
    with watched, mock.patch.object(driver, "save", saved), _quiet():
        code = cli(list(words))
    assert code == 0, words
    return events


def crashes(
    place: Path, events: list[Event], draw: random.Random, num_random: int = RANDOM_DISKS
) -> Iterator[tuple[int, int | None, dict[str, bytes | None]]]:
    """Every point, the step that is promised there, and a disk that is possible there; no disk twice."""
    disk, promised, seen = Disk(place), None, set()
    for point, event in enumerate(events):
        if isinstance(event, int):
            promised = event
            continue
        if not disk.apply(event):
            continue
        for held in disk.disks(draw, num_random):
            digest = hash((promised, *sorted(held.items())))
            if digest not in seen:
                seen.add(digest)
                yield point, promised, held


def write_out(held: dict[str, bytes | None], place: Path) -> None:
    """A real directory with what the disk held."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in sorted(held.items()):
        if content is None:
            (place / name).mkdir()
        else:
            (place / name).write_bytes(content)


def check(place: Path, promised: int | None) -> int | None:
    """The step from which the run at place/run goes on, or `Loss`."""
    run = RunDir(place / "run")
    if promised is None:
        return None
    with _quiet():
        RunDir.open(run.path)
        path, _, _ = checkpoint.newest_intact(run)
    if int(path.stem) < promised:
        raise Loss(f"step {promised} was saved, and step {int(path.stem)} is the newest intact one")
    if changed := run.changed_tables(path):
        raise Loss(f"the tables {changed} lack rows of before step {int(path.stem)}")
    for piece in run.replay_pieces():
        if int(piece.stem) <= int(path.stem):
            check_tensors(piece)
    return int(path.stem)


@dataclass
class Figures:
    """Counts of what was tried."""

    calls: int = 0
    disks: int = 0
    resumed: int = 0
    losses: int = 0


def torture(
    scratch: Path, name: str, seed: int, num_resumed: int, num_random: int = RANDOM_DISKS
) -> Figures:
    """Every point of a run; some of the disks are trained to the end and compared."""
    place, copy, draw = scratch / "x", scratch / "copy", random.Random(seed)
    for path in (place, copy):
        shutil.rmtree(path, ignore_errors=True)
    place.mkdir()
    events = record(place, "pretrain", *RUNS[name], "--out", str(place / "run"))
    wanted, figures = victims.results(place), Figures(len(events))
    possible = list(crashes(place, events, draw, num_random))
    resumed = set(draw.sample(range(len(possible)), min(num_resumed, len(possible))))
    for index, (point, promised, held) in enumerate(possible):
        figures.disks += 1
        write_out(held, copy)
        try:
            check(copy, promised)
            if index in resumed and "run/config.json" in held:
                figures.resumed += 1
                _train_to_the_end(copy, wanted)
        except Exception as error:
            figures.losses += 1
            last = events[point]
            said = f"{last.kind} {last.path}" if isinstance(last, Call) else last
            print(f"LOSS: {name}, after call {point} ({said}): {error!r}", file=sys.stderr)
    return figures


def _train_to_the_end(place: Path, wanted: dict[str, str]) -> None:
    told = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
        code = cli(list(victims.pretrain(())(place)))
    if code:
        raise Loss(told.getvalue())
    found = victims.results(place)
    if differing := [k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k)]:
        raise Loss(f"it came to another end: {sorted(differing)}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def main() -> int:
    """The figures go to stdout as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.robustness.torture.power_loss", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resumed", type=int, default=100, help="disks to train to the end")
    parser.add_argument("--random-disks", type=int, default=RANDOM_DISKS, help="per call")
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS))
    chosen, losses = parser.parse_args(), 0
    for name in chosen.only:
        with tempfile.TemporaryDirectory(prefix="visr-power-loss-") as scratch:
            how = (chosen.seed, chosen.resumed, chosen.random_disks)
            figures = torture(Path(scratch), name, *how)
        print(json.dumps({"run": name, "seed": chosen.seed, **vars(figures)}), flush=True)
        losses += figures.losses
    return int(losses > 0)


if __name__ == "__main__":
    sys.exit(main())
