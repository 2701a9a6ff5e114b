"""Fine-tuning against the same learner from scratch on the grid, exact fractions of optimal.

    python experiments/finetune_grid.py runs/plus --rewards goal:0,7 goal:9,2 boxes:7 --num-steps 20000

infers each reward, fine-tunes and learns from scratch on as many steps (under RUN/finetuned), and writes
results/grid/finetune.csv.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import visr
from visr.disk.files import read_json
from visr.run_dir import slug


def compared(run: visr.Run, reward: str, num_steps: int, seed: int) -> list[dict[str, object]]:
    """One row for psi as pre-trained, one for fresh weights."""
    task, rows = run.infer(reward), []
    for from_scratch in (False, True):
        place = run.directory.finetuned_run(f"{slug(reward)}-{num_steps}-{seed}-{from_scratch}")
        if not place.exists():
            run.finetune(task, out=place, num_steps=num_steps, from_scratch=from_scratch, seed=seed)
        content = read_json(visr.load(place).directory.finetuned)
        row = {"reward": reward, "num_steps": num_steps, "seed": seed, "from_scratch": from_scratch}
        for when in ("before", "after"):
            row[when] = content[when]["fraction_of_optimal"]
        rows.append(row)
        print(row, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--rewards", nargs="+", default=["goal:0,7", "goal:9,2", "boxes:7"])
    parser.add_argument("--num-steps", type=int, default=20_000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=Path("results/grid/finetune.csv"))
    options = parser.parse_args()
    run = visr.load(options.run)
    rows = [
        row
        for reward in options.rewards
        for seed in options.seeds
        for row in compared(run, reward, options.num_steps, seed)
    ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
