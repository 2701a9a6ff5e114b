"""Feed every target with so many inputs, and measure: refusals, the slowest input, memory."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from tests.robustness.fuzz.targets import Target, all_targets

MOST_SECONDS = 5.0
"""Of the processor's time that one call may take; twenty times that for fifty messages of a websocket."""
MOST_GROWTH = 64.0
"""Megabytes between the first tenth of a target's inputs and its last."""
TALLY = "tally "
"""Begins the lines that the process of guided inputs prints for us."""
_ROOT = Path(__file__).parents[3]


class Fault(Exception):
    """An input that was met with something other than an answer or a UserError."""


class Tally(NamedTuple):
    """What came of one target."""

    target: str
    inputs: int
    refused: int
    slowest: float
    """Seconds of the processor's time for one call."""
    growth: float
    """Megabytes."""


def can_guide() -> bool:
    """Whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def shares(targets: list[Target], inputs: int) -> list[tuple[Target, int]]:
    """How many inputs each target gets, by its share."""
    total = sum(target.share for target in targets)
    return [(t, max(int(inputs * t.share / total), t.at_once)) for t in targets]


def feed_all(inputs: int, seed: int, place: Path, run: Path) -> Iterator[Tally]:
    """Each target with its share of inputs that are drawn from the seed; the first Fault ends it."""
    for target, count in shares(all_targets(place, run), inputs):
        yield _feed(target, count, seed)


def _feed(target: Target, inputs: int, seed: int) -> Tally:
    source = random.Random(f"{target.name} {seed}")
    refused, slowest, calls = 0, 0.0, -(-inputs // target.at_once)
    settled = resident()
    for call in range(calls):
        given = target.make(source)
        try:
            answered, seconds = fed(target, given)
        except Exception as error:
            raise Fault(f"{target.name}, seed {seed}, call {call}: {given!r}") from error
        refused, slowest = refused + answered, max(slowest, seconds)
        if call == calls // 10:
            settled = resident()
    growth = resident() - settled
    _refuse_growth(target.name, growth)
    return Tally(target.name, calls * target.at_once, refused, slowest, growth)


def guide_all(inputs: int, seed: int, place: Path, run: Path) -> Iterator[Tally]:
    """The same with inputs that coverage guides, in a process in which the lines of visr are counted."""
    command = [sys.executable, "-m", "tests.robustness.fuzz.guided", "--inputs", str(inputs)]
    (place / "guided").mkdir()
    command += ["--seed", str(seed), "--place", str(place / "guided"), "--run", str(run)]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith(TALLY):
                continue
            tally = Tally(*json.loads(line.removeprefix(TALLY)))
            _refuse_growth(tally.target, tally.growth)
            yield tally
        if process.wait():
            errors.seek(0)
            raise Fault(errors.read()[-20_000:])


def _refuse_growth(name: str, growth: float) -> None:
    if growth > MOST_GROWTH:
        raise Fault(f"{name}: memory grew by {growth:.0f} MB")


def fed(target: Target, given: Any) -> tuple[int, float]:
    """How many inputs of one call were refused, and the seconds of the processor's time that it took."""
    began = time.process_time()
    with _bounded(MOST_SECONDS * (20 if target.at_once > 1 else 1)):
        refused = target.feed(given)
    return refused, time.process_time() - began


@contextlib.contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """A TimeoutError after so much of the processor's time, however busy the machine is with others."""

    def stop(_number: int, _frame: FrameType | None) -> Any:
        raise TimeoutError(f"no answer after {seconds:g} seconds of the processor's time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def resident() -> float:
    """Megabytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
