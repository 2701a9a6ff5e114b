"""`python -m tests.robustness.fuzz.guided`: inputs that coverage guides, by atheris (libFuzzer).

libFuzzer changes bytes and keeps those that reach new lines of visr. The bytes are the choices of the same
generators that the seeded inputs come from, so that every input has the structure of its target.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sys
import traceback
from pathlib import Path
from typing import Any

_LONGEST = 600
"""Bytes of choices."""


class Choices(random.Random):
    """Draws that are read from bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data, self._at = data, 0

    def getrandbits(self, k: int, /) -> int:
        count = -(-k // 8)
        taken = self._data[self._at : self._at + count].ljust(count, b"\0")
        self._at += count
        return int.from_bytes(taken, "little") >> (8 * count - k)

    def random(self) -> float:
        return self.getrandbits(53) / 2**53


def main() -> None:
    """Feed every target in a fork; tallies go to stdout as JSON, a fault to stderr with exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.robustness.fuzz.guided")
    parser.add_argument("--inputs", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--place", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    chosen = parser.parse_args()
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["visr"]):
        from tests.robustness.fuzz import run, targets
    known = [t for t in targets.all_targets(chosen.place, chosen.run) if t.can_be_guided]
    for target, count in run.shares(known, chosen.inputs):
        child = os.fork()
        if child == 0:
            limits = [f"-max_len={_LONGEST}", "-len_control=0", "-timeout=86400", "-rss_limit_mb=0"]
            words = [sys.argv[0], f"-seed={chosen.seed + 1}", *limits, "-verbosity=0"]
            atheris.Setup(words, Feed(run, target, -(-count // target.at_once)))
            atheris.Fuzz()
        if os.waitpid(child, 0)[1]:
            sys.exit(1)


class Feed:
    """Counts, and ends the process: libFuzzer does not return."""

    def __init__(self, run: Any, target: Any, calls: int) -> None:
        self._run, self._target, self._calls = run, target, calls
        self._settled = run.resident()
        self._count = self._refused = 0
        self._slowest = 0.0

    def __call__(self, data: bytes) -> None:
        given = self._target.make(Choices(data))
        try:
            refused, seconds = self._run.fed(self._target, given)
        except Exception:
            traceback.print_exc()
            print(f"{self._target.name}, guided: {given!r}", file=sys.stderr, flush=True)
            os._exit(1)
        self._count += 1
        self._refused += refused
        self._slowest = max(self._slowest, seconds)
        if self._count == self._calls // 10:
            self._settled = self._run.resident()
        if self._count >= self._calls:
            growth = self._run.resident() - self._settled
            inputs = self._calls * self._target.at_once
            tally = [self._target.name, inputs, self._refused, self._slowest, growth]
            print(self._run.TALLY + json.dumps(tally), flush=True)
            os._exit(0)


if __name__ == "__main__":
    main()
