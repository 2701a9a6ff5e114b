"""`python -m tests.robustness.torture.soak`: train and watch memory, open files and bytes on disk.

    python -m tests.robustness.torture.soak --minutes 60 --env ALE/Breakout-v5 --preset atari-small

Flat means: after the first third (caches fill, the first checkpoints are written) the median of the last
third is at most a twentieth above that of the second, over the whole family of processes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from visr.storage.run_dir import RunDir
from visr.storage.tables import read_rows

_LOGS = ("metrics.csv", "timing.csv", "online.csv", "evaluation.csv", "tensorboard")
"""They grow, by rows that `log_every` bounds."""
_TOLERANCE = 1.05
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """What a training holds at a moment."""

    seconds: float
    num_steps: int
    megabytes: float
    """Resident, of all its processes."""
    files: int
    """Open descriptors, of all its processes."""
    disk: float
    """Megabytes of the run without its logs."""
    logs: float
    """Kilobytes of its logs."""


def watch(
    process: subprocess.Popen[str], run: RunDir, seconds: float, every: float
) -> list[Sample]:
    """Samples until the time is over or the training is."""
    began, samples = time.monotonic(), []
    while process.poll() is None and (now := time.monotonic() - began) < seconds:
        time.sleep(every)
        try:
            samples.append(sample(process.pid, run, now))
        except OSError:  # something came or went while we looked
            continue
    return samples


def sample(pid: int, run: RunDir, seconds: float) -> Sample:
    """One look at a family of processes and at its directory."""
    places = [Path("/proc") / str(member) for member in family(pid)]
    sizes = {p: p.stat().st_size for p in run.path.rglob("*") if p.is_file()}
    logs = sum(n for p, n in sizes.items() if p.relative_to(run.path).parts[0] in _LOGS)
    rows = read_rows(run.metrics)
    return Sample(
        seconds=seconds,
        num_steps=int(rows[-1]["num_steps"]) if rows else 0,
        megabytes=sum(int((p / "statm").read_text().split()[1]) for p in places) * _PAGE / 1e6,
        files=sum(len(os.listdir(p / "fd")) for p in places),
        disk=(sum(sizes.values()) - logs) / 1e6,
        logs=logs / 1e3,
    )


def family(pid: int) -> list[int]:
    """A process and all that it has started."""
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just gone
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(place.name))
    members = [pid]
    for member in members:  # which grows meanwhile
        members += parents.get(member, [])
    return members


def judge(samples: list[Sample]) -> dict[str, object]:
    """The middles of the second and of the last third, and whether they are alike."""
    third = len(samples) // 3
    thirds = samples[third : 2 * third], samples[2 * third :]
    figures: dict[str, object] = {"samples": len(samples), "seconds": round(samples[-1].seconds)}
    figures["num_steps"] = samples[-1].num_steps
    flat = True
    for name in ("megabytes", "files", "disk"):
        before, after = (statistics.median(getattr(s, name) for s in part) for part in thirds)
        figures[name] = [round(before, 1), round(after, 1)]
        flat &= after <= before * _TOLERANCE
    steps = samples[-1].num_steps - samples[third].num_steps
    grown = samples[-1].logs - samples[third].logs
    figures["log_kilobytes_per_million_steps"] = round(1e6 * grown / steps, 1) if steps else None
    return {**figures, "flat": flat}


def main() -> int:
    """Train, watch, stop politely, judge."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.robustness.torture.soak", description=__doc__
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--env", default="visr/Grid-v0")
    parser.add_argument("--preset", default="grid")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between samples")
    chosen, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="visr-soak-") as scratch:
        run = RunDir(Path(scratch) / "run")
        command = [sys.executable, "-m", "visr", "pretrain", chosen.env, "--preset", chosen.preset]
        command += ["--out", str(run.path), "--num-steps", "1000000000000", *more]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
        samples = watch(process, run, 60 * chosen.minutes, chosen.every)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
        if process.returncode != 128 + signal.SIGTERM or len(samples) < 9:
            print(f"The training did not last: {errors}", file=sys.stderr)
            return 1
        figures = judge(samples)
    print(json.dumps({"env": chosen.env, "preset": chosen.preset, **figures}))
    return 0 if figures["flat"] else 1


if __name__ == "__main__":
    sys.exit(main())
