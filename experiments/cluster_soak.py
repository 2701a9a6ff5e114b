"""Train on a local Ray while processes are killed, and check that the result is complete.

    python experiments/cluster_soak.py --num-steps 20480000 --kill-every 20 --json runs/soak.json

Starts `visr pretrain --cluster local`, kills random actors at intervals and the learner once (SIGKILL), and
records the memory of all processes. At the end it fails if counts differ from those requested, updates were
lost or counted twice, memory grew, or processes are left over.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path

from visr.storage.run_dir import RunDir
from visr.storage.tables import read_rows

_MARK = "VISR_SOAK"
_PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Train, kill processes, check and print the result."""
    options = _options()
    run = RunDir(options.out)
    shutil.rmtree(run.path, ignore_errors=True)
    command = [
        *(sys.executable, "-m", "visr.cli", "pretrain", "--preset", "grid", "--cluster", "local"),
        *("--num-steps", str(options.num_steps), "--num-envs", "96", "--num-processes", "1"),
        *("--num-actor-groups", "3", "--max-staleness", "6", "--unroll-timeout", "60"),
        *("--checkpoint-every", "400000", "--log-every", "100000", "--evaluate-every", "5000000"),
        *("--out", str(run.path), "--json"),
    ]
    mark = uuid.uuid4().hex
    start = time.monotonic()
    with open(f"{options.out}.stderr", "w") as errors:
        process = subprocess.Popen(
            command,
            env={**os.environ, _MARK: mark},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        kills = _kill_and_measure(
            process, mark, options.kill_every, options.kill_learner_after, random.Random(0)
        )
    output = process.stdout.read() if process.stdout else ""
    result = _check(run, process.returncode, output, options.num_steps)
    time.sleep(5)
    left = [name for _, name, _ in _processes(mark)]
    result |= {"seconds": round(time.monotonic() - start), "processes_left": left, **kills}
    print(json.dumps(result, indent=2))
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(0 if result["is_exact"] and not left else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # pyright: ignore
    parser.add_argument("--num-steps", type=int, default=20_480_000, help="steps of the run")
    parser.add_argument(
        "--kill-every", type=float, default=20.0, help="seconds between actor kills"
    )
    parser.add_argument("--kill-learner-after", type=float, default=600.0, help="seconds; once")
    parser.add_argument(
        "--out", default="runs/soak", help="the run's directory; an existing one is removed"
    )
    parser.add_argument("--json", help="also write the result to this file")
    return parser.parse_args()


def _kill_and_measure(
    process: subprocess.Popen[str],
    mark: str,
    every: float,
    learner_after: float,
    rng: random.Random,
) -> dict[str, object]:
    """Kill processes until the run ends; return counts, and memory in MB per kind of process."""
    began = last = time.monotonic()
    actors_killed, learner_killed, memory = 0, 0, []
    while process.poll() is None:
        time.sleep(2)
        found, now = _processes(mark), time.monotonic()
        memory.append(_memory(found, process.pid))
        actors = [pid for pid, name, _ in found if name == "ray::ActorWorker"]
        learner = [pid for pid, name, _ in found if name == "ray::LearnerWorker"]
        if now - last > every and actors:
            os.kill(rng.choice(actors), signal.SIGKILL)
            actors_killed, last = actors_killed + 1, now
        if now - began > learner_after and learner and not learner_killed:
            os.kill(learner[0], signal.SIGKILL)
            learner_killed = 1
    quarter = max(len(memory) // 4, 1)
    early, late = memory[quarter : 2 * quarter] or memory, memory[-quarter:]
    return {
        "actors_killed": actors_killed,
        "learners_killed": learner_killed,
        "memory_mb_second_quarter": _medians(early),
        "memory_mb_last_quarter": _medians(late),
    }


def _processes(mark: str) -> list[tuple[int, str, float]]:
    """(pid, name, resident MB) of every process of the run; they inherit its environment variable."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"{_MARK}={mark}".encode() not in (entry / "environ").read_bytes():
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")
            name = Path(words[0].decode()).name.split(".")[0]
            resident = int((entry / "statm").read_text().split()[1]) * _PAGE / 2**20
        except (OSError, IndexError, ValueError):  # the process has just ended
            continue
        if name:
            found.append((int(entry.name), name, resident))
    return found


def _memory(processes: list[tuple[int, str, float]], driver: int) -> dict[str, float]:
    kinds = {"learner": "ray::LearnerWorker", "raylet": "raylet", "gcs_server": "gcs_server"}
    sums = {kind: sum(mb for _, it, mb in processes if it == name) for kind, name in kinds.items()}
    return {"driver": sum(mb for pid, _, mb in processes if pid == driver), **sums}


def _medians(samples: list[dict[str, float]]) -> dict[str, int]:
    if not samples:
        return {}
    there = {kind: [s[kind] for s in samples if s[kind] > 0] for kind in samples[0]}
    return {kind: round(statistics.median(values)) for kind, values in there.items() if values}


def _check(run: RunDir, code: int | None, output: str, asked: int) -> dict[str, object]:
    """Exact: every row counts whole batches, none is missing or double, the last has the requested steps."""
    rows, stats = read_rows(run.metrics), read_rows(run.cluster_stats)
    batch, every = 32 * 40, 100_000
    end = -(-asked // batch) * batch
    counts = [int(row["num_steps"]) for row in rows]
    expected = [-(-n // batch) * batch for n in range(every, asked + 1, every)]
    expected += [end] if not expected or expected[-1] < end else []
    return {
        "exit_code": code,
        "num_steps_asked": asked,
        "num_steps": int(json.loads(output)["num_steps"]) if code == 0 else counts[-1:],
        "is_exact": code == 0
        and counts == expected
        and all(row["num_updates"] * batch == row["num_steps"] for row in rows)
        and int(run.checkpoints()[-1].stem) == end,
        "actors_replaced": stats[-1]["actors_replaced"],
        "learner_restarts": stats[-1]["learner_restarts"],
        "unrolls_dropped": stats[-1]["unrolls_dropped"],
        "max_staleness": max(row["max_staleness"] for row in stats),
        "steps_per_second": statistics.median(row["learning_steps_per_second"] for row in stats),
    }


if __name__ == "__main__":
    main()
