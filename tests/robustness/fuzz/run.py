"""Feed every target with so many inputs, and measure: refusals, the slowest input, memory."""

from __future__ import annotations

import contextlib
import os
import random
import signal
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


def feed_all(inputs: int, seed: int, place: Path, run: Path) -> Iterator[Tally]:
    """Each target with its share of the inputs; the first Fault ends it."""
    targets = all_targets(place, run)
    total = sum(target.share for target in targets)
    for target in targets:
        yield _feed(target, max(int(inputs * target.share / total), target.at_once), seed)


def _feed(target: Target, inputs: int, seed: int) -> Tally:
    source = random.Random(f"{target.name} {seed}")
    refused, slowest, calls = 0, 0.0, -(-inputs // target.at_once)
    settled = _resident()
    for call in range(calls):
        given = target.make(source)
        began = time.process_time()
        try:
            with _bounded(MOST_SECONDS * (20 if target.at_once > 1 else 1)):
                refused += target.feed(given)
        except Exception as error:
            raise Fault(f"{target.name}, seed {seed}, call {call}: {given!r}") from error
        slowest = max(slowest, time.process_time() - began)
        if call == calls // 10:
            settled = _resident()
    growth = _resident() - settled
    if growth > MOST_GROWTH:
        raise Fault(f"{target.name}, seed {seed}: memory grew by {growth:.0f} MB")
    return Tally(target.name, calls * target.at_once, refused, slowest, growth)


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


def _resident() -> float:
    """Megabytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
