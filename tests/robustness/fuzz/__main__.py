"""`python -m tests.robustness.fuzz`: the long version; a row per target, exit code 1 at the first fault."""

from __future__ import annotations

import argparse
import tempfile
import traceback
from pathlib import Path

from tests.conftest import tiny
from tests.robustness.fuzz.run import Fault, feed_all
from visr import pretraining

parser = argparse.ArgumentParser(prog="python -m tests.robustness.fuzz", description=__doc__)
parser.add_argument("--inputs", type=int, default=120_000, help="in all (default: %(default)s)")
parser.add_argument(
    "--seed", type=int, default=0, help="decides every input (default: %(default)s)"
)
chosen = parser.parse_args()

with tempfile.TemporaryDirectory() as place:
    pretraining.start(Path(place, "run"), tiny())
    total = 0
    print(f"{'target':<12} {'inputs':>8} {'refused':>8} {'slowest call':>13} {'memory':>9}")
    try:
        for tally in feed_all(chosen.inputs, chosen.seed, Path(place), Path(place, "run")):
            total += tally.inputs
            print(
                f"{tally.target:<12} {tally.inputs:>8,} {tally.refused:>8,} {tally.slowest:>11.3f} s "
                f"{tally.growth:>+6.1f} MB",
                flush=True,
            )
    except Fault as fault:
        traceback.print_exc()
        raise SystemExit(1) from fault
print(f"{total:,} inputs: no traceback, no hang, no growth")
