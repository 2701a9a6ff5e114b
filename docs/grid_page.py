"""docs/results/grid.md from results/; see results_pages.py."""

from __future__ import annotations

import statistics

from page_parts import (
    DASH,
    NOTE,
    RESULTS,
    Csv,
    joined,
    markdown,
    number,
    read,
    seeds_of,
    short,
    spread,
    table,
)

from visr import envs
from visr.config import RunConfig
from visr.envs.grid import dynamic_programming as dp
from visr.evaluation.grid_benchmark import GridBenchmark
from visr.paper.suite import build, claims, tables
from visr.paper.suite.entries import Suite

GRID_WORDS = """\
Values are exact: 0 is a random policy, 1 an optimal one, (V - V_random) / (V_optimal - V_random), with discount
0.95, averaged over all start cells and 50 unseen tasks of each family. *Own* is w's own greedy policy, *GPI* maximises
over w and its neighbours, *planned* is an optimal policy for the fitted reward phi . w, scored on the true one. It is no bound: where the fit is poor, the
agent's own policy can do better. These are VISR's agents; the replay learner has [a page of its own](replay.md#grid-worlds)."""


def grid_page(suite: Suite | None, by_name: build.grid.ByName) -> str:
    parts = [
        "# Results: the grid world",
        NOTE,
        GRID_WORDS,
        _constant_action(),
        _presets(),
        _curves(),
    ]
    if suite is not None:
        words = (
            "5M reward-free steps, an eighth of the preset `grid`. VISR infers each task by regression on all states; Q-DIAYN "
            "uses the best of its skills by exact value.\n\n"
            "```sh\nvisr reproduce grid --num-steps 5000000 --seeds 0 1 2\n```"
        )
        judged = claims.tables(suite)
        parts += [f"## The paper's claims\n\n{words}"]
        parts += [markdown(t).replace("## ", "### ", 1) for t in judged]
        parts += [markdown(t).replace("## ", "### ", 1) for t in tables.robust(suite)]
        parts += [markdown(build.grid.table(by_name)).replace("## ", "### ", 1)]
        parts += ["![Intervals over seeds](../images/grid_intervals.png)"]
        parts += ["![The same agents over training, one line per seed](../images/grid_curves.png)"]
    parts += [_finetuning(), _variants("ablation"), _variants("beyond")]
    return joined(parts)


def _constant_action() -> str:
    """The exact value of the best constant action; it depends on no run."""
    config = RunConfig()
    world = envs.exact_model(config)
    assert world is not None
    found = []
    for name, rewards in GridBenchmark(config, world).families.items():
        fractions = []
        for reward in rewards:
            low, high = dp.bounds(world.transitions, reward, world.start, dp.GAMMA)
            value = dp.best_constant(world.transitions, reward, world.start, dp.GAMMA)
            fractions.append(float((value - low) / (high - low)))
        found.append(f"{statistics.mean(fractions):.2f} on {name}")
    return f"The best constant action has {' and '.join(found)}."


def _presets() -> str:
    rows = []
    for path in sorted(RESULTS.glob("grid/tables/quality*.csv")):
        by_preset: dict[str, Csv] = {}
        for row in read(str(path.relative_to(RESULTS))):
            by_preset.setdefault(row["preset"], []).append(row)
        for preset, runs in by_preset.items():
            rows.append((number(runs, "boxes"), _quality(preset, runs)))
    rows.sort(key=lambda row: -row[0])
    columns = ["preset", "steps", "seeds", "family", "own", "GPI", "planned"]
    words = (
        "Mean ± standard deviation over seeds.\n\n"
        "```sh\npython experiments/grid_quality.py runs/quality --presets grid --seeds 0 1 2\n```"
    )
    return f"## Presets of VISR\n\n{words}\n\n{table(columns, [cells for _, found in rows for cells in found])}"


def _quality(preset: str, runs: Csv) -> list[list[str]]:
    """One row for each family of tasks."""

    def of(column: str) -> str:
        return spread([float(run[column]) for run in runs]) if column in runs[0] else DASH

    first = [f"`{preset}`", short(float(runs[0]["num_steps"])), seeds_of(runs)]
    families = {"span": "random w", "boxes": "boxes", "goals": "goal cells"}
    return [
        [
            *(first if key == "span" else [""] * 3),
            name,
            *map(of, (key, f"{key}_gpi", f"{key}_planned")),
        ]
        for key, name in families.items()
    ]


def _curves() -> str:
    rows = []
    for path in sorted(RESULTS.glob("grid/curves/*.csv")):
        last = read(str(path.relative_to(RESULTS)))[-1]
        cells = [f"{float(last[c]):.3f}" for c in ("span_gpi", "boxes_gpi", "goals_gpi")]
        rows.append([f"`{path.name}`", short(float(last["num_steps"])), *cells])
    shown = table(
        ["file in `results/grid/curves/`", "steps", "random w", "boxes", "goal cells"], rows
    )
    return (
        f"## The end of each learning curve\n\nOne run each, with GPI, at the run's own ridge.\n\n{shown}\n\n"
        "![Fraction of optimal while grid-wide trains](../images/optimal.png)"
    )


def _finetuning() -> str:
    rows = read("grid/tables/finetune.csv")
    budgets = sorted({int(row["num_steps"]) for row in rows})
    kinds: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for row in rows:
        free = int(row["free_steps"])
        how = (
            f"{short(free)} reward-free steps"
            if free
            else ("from scratch" if row["from_scratch"] == "1" else "fine-tuned")
        )
        run = {
            "pretrained:grid": "`pretrained:grid-visr`",
            "pretrained:four-rooms": "four rooms, 7M steps",
        }
        key = (run.get(row["run"], row["run"]), row["family"], how)
        kinds.setdefault(key, {}).setdefault(int(row["num_steps"]), []).append(
            float(row["fraction_of_optimal"])
        )
    cells = [
        [f"{run}, {family}, {how}", str(max(map(len, found.values()))),
         *(f"{statistics.mean(found[n]):.2f}" if n in found else "" for n in budgets)]
        for (run, family, how), found in sorted(kinds.items())
    ]  # fmt: skip
    shown = table(["rewarded steps:", "tasks", *(f"{n:,}" for n in budgets)], cells)
    command = "python experiments/finetune_grid.py pretrained:grid-visr --num-tasks 3 --updates-per-round 16"
    return f"## Fine-tuning\n\nMean fraction of optimal over tasks, one seed. VISR models; those of four rooms are no longer part of the package.\n\n```sh\n{command}\n```\n\n{shown}"


def _variant(name: str) -> str:
    return "none: `demo-visr`" if name == "demo" else name


def _variants(name: str) -> str:
    titles = {"ablation": "One setting at a time", "beyond": "Additions"}
    words = {
        "ablation": "Preset `demo-visr` with one change each, 2M steps, seed 0.",
        "beyond": "Preset `demo-visr` with one [addition](../agents/additions.md) each, 2M steps, seed 0. "
        "`forward` and `inverse` were removed since.",
    }
    commands = {
        "ablation": "python experiments/grid_ablation.py runs/ablation --num-steps 2000000",
        "beyond": "python experiments/beyond.py runs/beyond --num-steps 2000000",
    }
    keys = ("span", "boxes", "boxes_planned", "goals", "goals_planned")
    rows = [
        [_variant(row["variant"]), *(f"{float(row[k]):.2f}" for k in keys)]
        for row in read(f"grid/tables/{name}.csv")
    ]
    columns = ["change", "random w", "boxes", "boxes: planned", "goal cells", "goal cells: planned"]
    picture = (
        "\n\n![Fractions of optimal by choice](../images/ablation.png)"
        if name == "ablation"
        else ""
    )
    warning = "Differences below about 0.1 mean little with one seed."
    return (
        f"## {titles[name]}\n\n{words[name]} {warning}\n\n```sh\n{commands[name]}\n```\n\n"
        f"{table(columns, rows)}{picture}"
    )
