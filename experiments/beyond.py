"""Compare the additions to the paper one at a time: preset `demo` on grid worlds, exact fractions of optimal.

    python experiments/beyond.py runs/beyond --worlds grid four-rooms --seeds 0 1 2 --jobs 2

trains the runs that are missing (one directory per world, variant and seed), writes
results/grid/tables/beyond.csv, and prints means over seeds and the interquartile mean of boxes and goal cells
with its interval.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import run as execute
from sys import executable

import numpy as np

from visr.paper.suite import statistics
from visr.storage.run_dir import RunDir

# name -> command-line fields; each changes one setting of the preset `demo`
VARIANTS: dict[str, list[str]] = {
    "demo": [],
    "visited": ["--task-distribution", "visited"],
    "value weight 8": ["--value-weight", "8"],
    "bonus rnd": ["--bonus", "rnd", "--bonus-num-steps", "1000000"],
    "bonus particles": ["--bonus", "particles", "--bonus-num-steps", "1000000"],
    "random features": ["--features", "random"],
    "laplacian": ["--objective", "laplacian"],
    "metra": ["--objective", "metra"],
    "d = 64": ["--num-features", "64"],
    "whitened": ["--whitened", "--ridge", "0"],
    "all together": ["--preset", "grid-plus", "--hidden-sizes", "256", "256"],
}
WORLDS: dict[str, list[str]] = {
    "grid": [],
    # docs/results/appendix_additions.md, "Four rooms", says why gamma is larger and the ridge smaller
    "four-rooms": [
        *("--layout", "four-rooms", "--height", "11", "--width", "11"),
        *("--gamma", "0.95", "--ridge", "0.03"),
    ],
}
FAMILIES = ("span", "boxes", "boxes_planned", "goals", "goals_planned")
Row = dict[str, float | str]


@dataclass(frozen=True)
class Trial:
    """One row of the table."""

    world: str
    variant: str
    seed: int

    def row(self, directory: Path, num_steps: int) -> Row:
        """The last exact scores of the run; trained if missing."""
        name = "".join(c if c.isalnum() else "-" for c in self.variant)
        path = directory / self.world / name / f"seed-{self.seed}"
        words = VARIANTS[self.variant]
        if "--preset" not in words:
            words = ["--preset", "demo-visr", *words]
        if not path.exists():
            fixed = f"--num-processes 1 --num-steps {num_steps} --seed {self.seed}".split()
            given = [*WORLDS[self.world], *words, *fixed, "--out", str(path)]
            execute([executable, "-m", "visr.cli", "pretrain", *given], check=True)
        run = RunDir.open(path)
        last = run.last_row(run.evaluation)
        row: Row = {"world": self.world, "variant": self.variant, "seed": self.seed}
        return row | {name: last[name] for name in ("num_steps", *FAMILIES)}


def print_means(rows: list[Row]) -> None:
    """Print one line per world and variant: means over seeds, and the IQM with its interval."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[str(row["world"]), str(row["variant"])].append(row)
    for (world, variant), of in groups.items():
        means = [f"{f} {np.mean([float(row[f]) for row in of]):.3f}" for f in FAMILIES]
        found = statistics.aggregate(
            {
                family: {int(row["seed"]): 100 * float(row[family]) for row in of}
                for family in ("boxes", "goals")
            }
        )
        interval = found.iqm_interval
        shown = "" if interval is None else f" [{interval.low:.1f}, {interval.high:.1f}]"
        print(f"{world:<10} {variant:<16}", *means, f"IQM {found.iqm:.1f}{shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--num-steps", type=int, default=2_000_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("results/grid/tables/beyond.csv"))
    options = parser.parse_args()
    trials = [
        Trial(world, variant, seed)
        for seed in options.seeds
        for world in options.worlds
        for variant in options.only
    ]
    with ThreadPoolExecutor(options.jobs) as jobs:
        rows = list(jobs.map(lambda t: t.row(options.directory, options.num_steps), trials))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print_means(rows)


if __name__ == "__main__":
    main()
