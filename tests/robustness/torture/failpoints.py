"""`python -m tests.robustness.torture.failpoints`: every call that storage makes fails once, in every verb.

The method of SQLite's tests: count the calls of an undisturbed command, then run it again and again, and let
the n-th call fail, for every n and every kind of fault. After each fault the run opens, no file is
incomplete, and the same command ends with the bytes of the undisturbed one.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import errno
import importlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.robustness.torture import file_calls, victims
from tests.robustness.torture.file_calls import Call, Numbered
from tests.robustness.torture.kills import LOADED_ONCE
from tests.robustness.torture.processes import Ended, visr
from visr import cli
from visr.storage.run_dir import RunDir
from visr.training import checkpoint

SMALL = (
    *("--preset", "smoke", "--height", "5", "--width", "5", "--num-steps", "640"),
    *("--num-envs", "8", "--batch-size", "8", "--checkpoint-every", "320", "--log-every", "320"),
    *("--evaluate-every", "640", "--gpi-samples", "2", "--recorded-steps", "2000"),
)
REPLAY = (
    *("visr/Grid-v0", "--preset", "replay-grid", "--height", "4", "--width", "4"),
    *("--num-envs", "8", "--unroll-length", "16", "--num-updates", "4", "--num-steps", "1024"),
    *("--warmup-steps", "256", "--checkpoint-every", "256", "--log-every", "256"),
    *("--evaluate-every", "1024"),
)
FINETUNE = ("--num-steps", "960", "--checkpoint-every", "480")
FAULTS = ("EIO", "ENOMEM", "ENOSPC", "short", "torn")
"""EIO, ENOMEM: this call fails. ENOSPC: from this call on the disk is full. short: a write takes half of its
bytes. torn: a write takes half of its bytes, and then the disk is full."""


class Loss(Exception):
    """After a fault, something was lost, incomplete, or not explained in a sentence."""


@dataclass(frozen=True)
class Verb:
    """A command; `prepare` makes what it needs in an empty place, `command` begins or goes on."""

    share: int
    """Of the faults that are not all: more for shorter commands."""
    command: Callable[[Path], tuple[str, ...]]
    prepare: Callable[[Path], None] = lambda _: None


def _run_with_task(place: Path) -> None:
    _succeed(place, "pretrain", *SMALL, "--out", str(place / "run"))
    _succeed(place, "infer", str(place / "run"), "--reward", "goal:2,3", "--name", "old")


def _stopped_run(place: Path) -> None:
    """A run as a kill leaves it: rows of steps after its newest checkpoint."""
    _succeed(place, "pretrain", *SMALL, "--out", str(place / "run"))
    RunDir(place / "run").checkpoints()[-1].unlink()


def _succeed(place: Path, *words: str) -> None:
    ended = visr(*words, place=place)
    if ended.code != 0:
        raise Loss(f"{words[0]} fails undisturbed: {ended}")


VERBS = {
    "pretrain": Verb(2, victims.pretrain(SMALL)),
    "replay": Verb(2, victims.pretrain(REPLAY)),
    "resume": Verb(3, victims.pretrain(SMALL), _stopped_run),
    "infer": Verb(
        4, victims.on_run("infer", "--reward", "boxes:7", "--name", "new"), _run_with_task
    ),
    "evaluate": Verb(2, victims.on_run("evaluate", "old"), _run_with_task),
    "finetune": Verb(3, victims.finetune(FINETUNE), _run_with_task),
    "refine": Verb(1, victims.on_run("refine", "old", "--num-updates", "20"), _run_with_task),
    "report": Verb(1, victims.on_run("report"), _run_with_task),
    "pack": Verb(4, victims.pack, _run_with_task),
    "reproduce": Verb(1, victims.reproduce),
}


class Failpoint:
    """The n-th call fails."""

    def __init__(self, fault: str = "", at: int = 0) -> None:
        self._fault, self._at, self._is_full = fault, at, False

    def __call__(self, number: int, call: Call) -> int | None:
        is_now, half = number == self._at, len(call.data) // 2
        if is_now and self._fault == "short":
            return half
        if is_now and self._fault == "torn":
            self._is_full = True
            return half
        if is_now and self._fault == "ENOSPC":
            self._is_full = True
        elif is_now:
            code = getattr(errno, self._fault)
            raise OSError(code, os.strerror(code), call.path)
        if self._is_full and call.needs_space:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), call.path)
        return None


def _described(call: Call) -> str:
    """Its kind, and the faults that it can have."""
    return " ".join((call.kind, *_possible(call)))


def _possible(call: Call) -> Iterator[str]:
    yield from ("EIO", "ENOMEM")
    if call.needs_space:
        yield "ENOSPC"
    if len(call.data) > 1:
        yield from ("short", "torn")


class Bench:
    """One verb: what it ends with undisturbed, and what it does after each fault."""

    def __init__(self, scratch: Path, name: str) -> None:
        self.name, self._verb = name, VERBS[name]
        self._place, self._prepared = scratch / "x", scratch / "prepared"
        for path in (self._place, self._prepared):
            shutil.rmtree(path, ignore_errors=True)
        self._place.mkdir()
        self._verb.prepare(self._place)
        shutil.copytree(self._place, self._prepared)
        ended = self._run(Failpoint())
        if ended.code != 0:
            raise Loss(f"{name} fails undisturbed: {ended}")
        self.calls, self._wanted = ended.calls, victims.results(self._place)
        self._ends_well = {victims.state(self._prepared)}
        """States of the disk from which the command is known to end with the same bytes."""

    def points(self) -> list[tuple[int, str, str]]:
        """Every (n, kind of the call, fault)."""
        return [
            (n, kind, fault)
            for n, (kind, *faults) in enumerate(map(str.split, self.calls), start=1)
            for fault in faults
        ]

    def inject(self, n: int, kind: str, fault: str) -> None:
        """Run with one fault, look at what it left, and run again."""
        shutil.rmtree(self._place)
        shutil.copytree(self._prepared, self._place)
        ended = self._run(Failpoint(fault, n))
        said = f"{self.name}, {fault} at call {n} ({kind}): {ended.code}, {ended.err}"
        if not victims.said_well(ended):
            raise Loss(f"no sentence: {said}")
        is_warned = "going on from step" in ended.err  # the newest checkpoint could not be read
        try:
            self._look(kind, is_warned)
        except Exception as error:
            raise Loss(f"{type(error).__name__}: {error}; {said}") from error
        if ended.code == 0 and not is_warned and (differing := self._differing()):
            raise Loss(f"success with other files {differing}: {said}")
        self._retry(said)

    def _retry(self, said: str) -> None:
        """The same command ends with the same bytes; from a state that another fault left, it is known to."""
        if (state := victims.state(self._place)) in self._ends_well:
            return
        again = self._run(Failpoint())
        if again.code != 0:
            raise Loss(f"it does not go on ({again.err}) after {said}")
        if differing := self._differing():
            raise Loss(f"it comes to another end {differing} after {said}")
        self._ends_well.add(state)

    def _run(self, failpoint: Failpoint) -> Ended:
        notes = self._place / "calls.txt"
        inside = Numbered(notes, file_calls.is_of_storage, failpoint, _described)
        return visr(*self._verb.command(self._place), place=self._place, inside=inside)

    def _look(self, kind: str, is_warned: bool) -> None:
        """No file is incomplete or new under another name, and the run opens.

        Weights of a refined task are named by their content, so an older checkpoint gives another name.
        """
        victims.refuse_torn_files(self._place)
        if kind != "unlink" and not is_warned:  # what cannot be removed stays
            known = victims.results(self._prepared).keys() | self._wanted.keys()
            left = [
                name for name in victims.results(self._place, partial=True) if name not in known
            ]
            assert not [name for name in left if "/checkpoints/" not in name], left
        run = RunDir(self._place / "run")
        if self.name != "reproduce" and run.config_file.exists():
            RunDir.open(run.path)
            if run.checkpoints():
                checkpoint.newest_intact(run)

    def _differing(self) -> list[str]:
        found = victims.results(self._place, partial=True)
        names = found.keys() | self._wanted.keys()
        return sorted(name for name in names if found.get(name) != self._wanted.get(name))


def spread(points: list[tuple[int, str, str]], most: int, draw: random.Random) -> list[int]:
    """Indices of at most so many points: in turn one of every (kind of call, fault)."""
    groups: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    for index, (_, kind, fault) in enumerate(points):
        groups[kind, fault].append(index)
    for group in groups.values():
        draw.shuffle(group)
    order = list(groups.values())
    draw.shuffle(order)
    chosen: list[int] = []
    while order and len(chosen) < most:
        chosen += [group.pop() for group in order][: most - len(chosen)]
        order = [group for group in order if group]
    return sorted(chosen)


def warm_up(scratch: Path, names: list[str]) -> None:
    """Run the commands once in this process, so that forks of it need not import and compile again."""
    place = scratch / "warm"
    for name in names:
        place.mkdir()
        VERBS[name].prepare(place)
        nowhere = io.StringIO()
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            cli.main(list(VERBS[name].command(place)))
        shutil.rmtree(place)


def torture(
    scratch: Path, names: list[str], num_faults: int | None, seed: int, num_skipped: int = 0
) -> dict[str, object]:
    """So many faults in all, or every one; each loss is told on stderr."""
    began, draw = time.monotonic(), random.Random(seed)
    calls, faults, losses = {}, {}, 0
    total = sum(VERBS[name].share for name in names)
    for name in names:
        bench = Bench(scratch, name)
        points = bench.points()
        most = len(points)
        if num_faults is not None:
            most = max(1, num_faults * VERBS[name].share // total)
        chosen = spread(points, most, draw)[num_skipped:]
        for done, index in enumerate(chosen, start=1):
            try:
                bench.inject(*points[index])
            except Loss as loss:
                losses += 1
                print(f"\nLOSS: {loss}", file=sys.stderr)
            print(f"\r{name}: {done} of {len(chosen)} faults", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        calls[name], faults[name] = len(bench.calls), len(chosen)
    return {
        "seed": seed,
        "faults": sum(faults.values()),
        "losses": losses,
        "faults_by_command": faults,
        "calls_by_command": calls,
        "seconds": round(time.monotonic() - began),
    }


def count(scratch: Path, names: list[str]) -> dict[str, list[int]]:
    """Calls of storage and possible faults of each verb."""
    benches = {name: Bench(scratch, name) for name in names}
    return {name: [len(b.calls), len(b.points())] for name, b in benches.items()}


def main() -> int:
    """The figures go to stdout as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.robustness.torture.failpoints", description=__doc__
    )
    parser.add_argument("--count", action="store_true", help="only count calls and faults")
    parser.add_argument("--faults", type=int, help="in all (default: every one)")
    parser.add_argument("--seed", type=int, default=0, help="decides which, with --faults")
    parser.add_argument(
        "--skip", type=int, default=0, help="the first faults of each verb, done before"
    )
    parser.add_argument("--only", nargs="+", choices=list(VERBS), default=list(VERBS))
    chosen = parser.parse_args()
    for module in LOADED_ONCE:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory(prefix="visr-failpoints-") as scratch:
        warm_up(Path(scratch), [name for name in chosen.only if name != "reproduce"])
        if chosen.count:
            print(json.dumps(count(Path(scratch), chosen.only)))
            return 0
        figures = torture(Path(scratch), chosen.only, chosen.faults, chosen.seed, chosen.skip)
    print(json.dumps(figures))
    return int(figures["losses"] != 0)


if __name__ == "__main__":
    sys.exit(main())
