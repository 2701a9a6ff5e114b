"""What goes beyond the paper in one table: `demo` on the grid, one addition at a time, fractions of optimal.

    python experiments/beyond.py runs/beyond --num-steps 2000000 --jobs 2

trains whatever is missing (a directory per variant) and writes results/grid/beyond.csv.
"""

from __future__ import annotations

import argparse
import csv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import run as execute
from sys import executable

from visr.run_dir import RunDir

# name -> command-line fields; each departs from the preset `demo` in one thing
VARIANTS: dict[str, list[str]] = {
    "demo": [],
    "visited": ["--task-distribution", "visited"],
    "value weight 8": ["--value-weight", "8"],
    "bonus rnd": ["--bonus", "rnd", "--bonus-num-steps", "1000000"],
    "bonus particles": ["--bonus", "particles", "--bonus-num-steps", "1000000"],
    "bonus forward": ["--bonus", "forward", "--bonus-num-steps", "1000000"],
    "random features": ["--features", "random"],
    "inverse": ["--objective", "inverse"],
    "laplacian": ["--objective", "laplacian"],
    "metra": ["--objective", "metra"],
    "d = 64": ["--num-features", "64"],
    "whitened": ["--whitened", "--ridge", "0"],
    "all together": ["--preset", "grid-plus", "--hidden-sizes", "256", "256"],
}
FAMILIES = ("span", "boxes", "boxes_planned", "goals", "goals_planned")


def train(directory: Path, name: str, fixed: list[str]) -> dict[str, float | str]:
    """The last exact scores of one variant, trained if need be."""
    path = directory / "".join(c if c.isalnum() else "-" for c in name)
    words = (
        VARIANTS[name] if "--preset" in VARIANTS[name] else ["--preset", "demo", *VARIANTS[name]]
    )
    if not path.exists():
        command = [executable, "-m", "visr.cli", "pretrain", *words, *fixed, "--out", str(path)]
        execute(command, check=True, capture_output=True)
    run = RunDir.open(path)
    last = run.last_row(run.evaluation)
    return {"variant": name, "num_steps": last["num_steps"], **{f: last[f] for f in FAMILIES}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--num-steps", type=int, default=2_000_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("results/grid/beyond.csv"))
    options = parser.parse_args()
    fixed = ["--num-processes", "1", "--num-steps", str(options.num_steps)]
    with ThreadPoolExecutor(options.jobs) as jobs:
        rows = list(jobs.map(lambda name: train(options.directory, name, fixed), options.only))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print(f"{row['variant']:<16}", " ".join(f"{f} {row[f]:.3f}" for f in FAMILIES))


if __name__ == "__main__":
    main()
