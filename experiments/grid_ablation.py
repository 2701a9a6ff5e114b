"""Measure the effect of each setting of `grid-wide`: the smaller preset `demo-visr` with one setting changed.

    python experiments/grid_ablation.py runs/ablation --num-steps 2000000 --num-processes 1 --jobs 2

trains the runs that are missing (one directory per variant), then writes results/grid/tables/ablation.csv and
docs/images/ablation.png.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import run as execute
from sys import executable

from matplotlib.figure import Figure

from visr.config import presets
from visr.storage.files import write_bytes
from visr.storage.run_dir import RunDir

# name -> command-line fields; each changes one setting of the preset `demo-visr`
VARIANTS: dict[str, list[str]] = {
    "demo": [],
    "d = 5": ["--num-features", "5"],
    "d = 32": ["--num-features", "32"],
    "gamma .95": ["--gamma", "0.95"],
    "gamma .8": ["--gamma", "0.8"],
    "n = 3": ["--n-step", "3"],
    "batch 32": ["--batch-size", "32"],
    "width 100": ["--hidden-sizes", "100", "100"],
    "target every 100": ["--target-period", "100"],
    "phi learns to the end": ["--phi-num-steps", "0"],
    "random phi": ["--features", "random"],
    "no new starts": ["--max-episode-steps", "0"],
    "plain least squares": ["--no-centred", "--ridge", "0"],
    "centred, no ridge": ["--ridge", "0"],
}
FAMILIES = {"span": "random w, in the span of phi", "boxes": "two 4x4 boxes", "goals": "goal cells"}


def train(directory: Path, name: str, fixed: list[str]) -> dict[str, float | str]:
    """The last exact scores of one variant; trained if missing."""
    slug = "".join(c if c.isalnum() else "-" for c in name)
    path = directory / slug
    if not path.exists():
        command = [executable, "-m", "visr.cli", "pretrain", "--preset", "demo-visr", *fixed]
        execute([*command, *VARIANTS[name], "--out", str(path)], check=True)
    run = RunDir.open(path)
    return {"variant": name, **run.last_row(run.evaluation)}


def draw(rows: Sequence[Mapping[str, float | str]]) -> bytes:
    """Three panels of bars: fractions of optimal, and those of exact planning on phi . w."""
    import io

    figure = Figure(figsize=(11, 5.2), layout="constrained")
    panels = figure.subplots(1, len(FAMILIES), sharey=True)
    names = ["none: demo-visr" if row["variant"] == "demo" else str(row["variant"]) for row in rows]
    for panel, (family, title) in zip(panels, FAMILIES.items(), strict=True):
        scores = [float(row[family]) for row in rows]
        colours = ["#d55e00" if name == "none: demo-visr" else "#0072b2" for name in names]
        panel.barh(names, scores, color=colours, height=0.7)
        if f"{family}_planned" in rows[0]:
            planned = [float(row[f"{family}_planned"]) for row in rows]
            panel.plot(
                planned, names, "|", color="#555555", markersize=12, label="planned on phi.w"
            )
        for name, score in zip(names, scores, strict=True):
            panel.text(max(score, 0) + 0.01, name, f"{score:.2f}", va="center", fontsize=8)
        panel.set(title=title, xlim=(min(0, *scores) - 0.02, 1.08), xlabel="fraction of optimal")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", fontsize=8, frameon=False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120, metadata={"Software": None})
    return picture.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--num-processes", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--num-steps", type=int, default=presets.get("demo-visr").training.num_steps
    )
    options = parser.parse_args()
    fixed = ["--num-processes", str(options.num_processes), "--num-steps", str(options.num_steps)]
    with ThreadPoolExecutor(options.jobs) as jobs:
        rows = list(jobs.map(lambda name: train(options.directory, name, fixed), VARIANTS))
    table = Path("results/grid/tables/ablation.csv")
    table.parent.mkdir(parents=True, exist_ok=True)
    with open(table, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_bytes(Path("docs/images/ablation.png"), draw(rows))
    print(f"{len(rows)} variants of {options.num_steps:,} steps: {table}, docs/images/ablation.png")


if __name__ == "__main__":
    main()
