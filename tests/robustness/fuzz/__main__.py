"""`python -m tests.robustness.fuzz`: the long version; a row per target, exit code 1 at the first fault."""

from __future__ import annotations

import argparse
import tempfile
import traceback
from pathlib import Path

from tests.conftest import tiny
from tests.robustness.fuzz.run import Fault, Tally, can_guide, feed_all, guide_all
from visr import pretraining

parser = argparse.ArgumentParser(prog="python -m tests.robustness.fuzz", description=__doc__)
parser.add_argument("--inputs", type=int, default=200_000, help="in all (default: %(default)s)")
parser.add_argument(
    "--seed", type=int, default=0, help="decides every input (default: %(default)s)"
)


def show(tally: Tally) -> int:
    """One row."""
    print(
        f"{tally.target:<23} {tally.inputs:>8,} {tally.refused:>8,} {tally.slowest:>11.3f} s "
        f"{tally.growth:>+6.1f} MB",
        flush=True,
    )
    return tally.inputs


def main() -> int:
    """Half of the inputs are drawn, the others guided by coverage if atheris is installed."""
    chosen, total = parser.parse_args(), 0
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        pretraining.start(place / "run", tiny())
        count = chosen.inputs // 2 if can_guide() else chosen.inputs
        where = (count, chosen.seed, place, place / "run")
        try:
            print(f"{'drawn':<23} {'inputs':>8} {'refused':>8} {'slowest call':>13} {'memory':>9}")
            total += sum(map(show, feed_all(*where)))
            if can_guide():
                print("guided by coverage")
                total += sum(map(show, guide_all(*where)))
            else:
                print("atheris is not installed: no input is guided by coverage")
        except Fault:
            traceback.print_exc()
            return 1
    print(f"{total:,} inputs: no traceback, no hang, no growth")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
