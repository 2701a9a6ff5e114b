"""Measure the grid presets with several seeds and write one table.

    python experiments/grid_quality.py runs/quality --presets grid grid-wide --seeds 0 1 2

trains the runs that are missing in the directory (a stopped run is resumed) and writes
results/grid/tables/quality.csv with every seed's exact fractions of optimal.  --num-steps trains for
fewer steps than the preset.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import visr
from visr.storage.run_dir import RunDir

FAMILIES = ("span", "boxes", "goals")


def trained(path: Path, options: argparse.Namespace, preset: str, seed: int) -> RunDir:
    """The finished run of this seed; trained or resumed if necessary."""
    if not path.exists():
        fewer = {} if options.num_steps is None else {"num_steps": options.num_steps}
        visr.pretrain(
            preset=preset, seed=seed, num_processes=options.num_processes, out=path, **fewer
        )
    return visr.resume(path).directory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--presets", nargs="+", default=["grid", "grid-wide"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--num-processes", type=int, default=2)
    parser.add_argument("--num-steps", type=int, help="instead of the preset's")
    parser.add_argument("--out", type=Path, default=Path("results/grid/tables/quality.csv"))
    options = parser.parse_args()
    rows = []
    for preset in options.presets:
        for seed in options.seeds:
            path = options.directory / f"{preset}-{seed}"
            run = trained(path, options, preset, seed)
            rows.append({"preset": preset, "seed": seed, **run.last_row(run.evaluation)})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for preset in options.presets:
        mine = [row for row in rows if row["preset"] == preset]
        means = {
            name: sum(row[name] for row in mine) / len(mine)
            for family in FAMILIES
            for name in (family, f"{family}_gpi")
        }
        print(preset, " ".join(f"{name} {value:.3f}" for name, value in means.items()))


if __name__ == "__main__":
    main()
