"""Grid worlds, where policies have exact values: a table, the suite of task families, and curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from visr.atari_games import GameSet
from visr.paper.suite.drawing import Drawing, line_styles, new_figure, plot
from visr.paper.suite.entries import BOTTOM, Entry, Key, Suite
from visr.paper.suite.read import RunSummary
from visr.paper.suite.statistics import Curve
from visr.paper.suite.tables import DASH, Table, TableRow, fixed, with_error
from visr.report import curves, style

FAMILIES = ("boxes", "goals")
"""Families of tasks that are the same for every agent; random w depend on the agent's features."""
_COLUMNS = {
    "span": "own", "span_gpi": "GPI", "boxes": "own", "boxes_gpi": "GPI", "boxes_planned": "planned",
    "goals": "own", "goals_gpi": "GPI", "goals_planned": "planned",
}  # fmt: skip
_GROUPS = (("Random w", 2), ("Two boxes", 3), ("Goal cells", 3))

ByName = dict[str, list[RunSummary]]
"""Runs by agent and steps."""


def evaluated(runs: Sequence[RunSummary]) -> ByName:
    """The grid runs with an exact evaluation, one of each seed."""
    found: ByName = {}
    for run in runs:
        others = found.setdefault(run.title, []) if run.evaluation else []
        if run.evaluation and run.seed not in {other.seed for other in others}:
            others.append(run)
    return found


def repeated(runs: Sequence[RunSummary]) -> dict[str, str]:
    """By name, why a grid run is not used: it repeats another."""
    used = {run.name: run for same in evaluated(runs).values() for run in same}
    first = {(run.title, run.seed): name for name, run in used.items()}
    return {
        run.name: f"has the same agent, steps and seed as {first[run.title, run.seed]}, which is used."
        for run in runs
        if run.evaluation and run.name not in used
    }


def table(by_name: ByName) -> Table:
    """Exact fractions of optimal at the end of training, means over seeds."""
    rows = []
    for name, runs in by_name.items():
        last = [{k: float(v[-1]) for k, v in run.evaluation.items()} for run in runs]
        cells = [_fraction([values.get(column, np.nan) for values in last]) for column in _COLUMNS]
        seeds = f"{len(runs)} seed{'' if len(runs) == 1 else 's'}"
        rows.append(TableRow((f"{name} steps, {seeds}", *cells)))
    return Table(
        name="grid",
        title="Grid world: fraction of optimal",
        caption=(
            "Exact, not sampled: 0 is the value of a random policy, 1 that of an optimal one. "
            "Own: the policy of w; GPI: the best action over w and its neighbours; planned: an "
            "optimal policy for the reward φ·w, scored on the true one; no bound, other policies may do "
            "better. ± is the standard "
            "deviation over seeds."
        ),
        columns=("Run", *_COLUMNS.values()),
        rows=tuple(rows),
        groups=_GROUPS,
    )


def _fraction(values: list[float]) -> str:
    values = [x for x in values if np.isfinite(x)]
    if len(values) <= 1:
        return fixed(values[0], 3) if values else DASH
    return with_error(fixed(float(np.mean(values))), f"{np.std(values, ddof=1):.2f}")


def suite(runs: Sequence[RunSummary]) -> Suite | None:
    """The grid world as a suite whose games are the families of tasks that all agents share."""
    entries: dict[Key, Entry] = {}
    for run in runs:
        for family in FAMILIES if run.evaluation and run.has_score else ():
            curve = _as_it_acts(run, family)
            if curve is not None and np.isfinite(curve.y[-1]):
                key = Key(run.label, "all states", BOTTOM, run.num_steps)
                entries.setdefault(key, Entry(key)).add(family, run.seed, float(curve.y[-1]))
    if not entries:
        return None
    order = sorted(entries, key=lambda key: (key.algorithm, key.num_steps))
    return Suite(
        "grid", "Grid world", (), tuple(entries[key] for key in order),
        game_sets=(GameSet("all", "boxes and goals", FAMILIES),),
        scale=dict.fromkeys(FAMILIES, (0.0, 1.0)),
        unit="fraction of optimal, %",
        scale_words="0 is a random policy, 100 an optimal one.",
    )  # fmt: skip


def _as_it_acts(run: RunSummary, family: str) -> Curve | None:
    """Fractions of optimal of the policy that the agent uses: by GPI if its name says so."""
    own = run.evaluation.get(family)
    values = run.evaluation.get(f"{family}_gpi", own) if run.label.startswith("GPI") else own
    return None if values is None else Curve(run.evaluation["num_steps"], values)


def over_training(by_name: ByName) -> Drawing:
    """Fraction of optimal during training: a panel for each family, a line for each run."""
    found = [
        (name, run.seed, family.key, curve)
        for name, runs in by_name.items()
        for run in runs
        for family in style.FAMILIES
        if (curve := _as_it_acts(run, family.key)) is not None
    ]
    return Drawing(
        "grid_curves",
        "Grid world during training",
        f"Fraction of optimal during training for {', '.join(by_name)}, three families of tasks.",
        "Fraction of optimal for random w, two boxes and goal cells, a line for each seed: by GPI "
        "for agents with GPI in their name, else by the policy of w.",
        lambda: _draw(list(by_name), [(name, family, curve) for name, _, family, curve in found]),
        ("run", "seed", "num_steps", "family", "fraction_of_optimal"),
        [
            (name, seed, x, family, y)
            for name, seed, family, curve in found
            for x, y in zip(curve.x, curve.y, strict=True)
        ],
    )


def _draw(names: list[str], found: list[tuple[str, str, Curve]]) -> Figure:
    styles = line_styles(names)
    figure, every = new_figure(
        1.85, left=0.055, right=0.985, bottom=0.42, top=0.2, across=len(style.FAMILIES),
        sharey=True, legend=styles, wspace=0.1,
    )  # fmt: skip
    steps = np.array([curve.x[-1] for _, _, curve in found] or [0.0])
    for axes, family in zip(every, style.FAMILIES, strict=True):
        plot(axes, [(name, curve) for name, of, curve in found if of == family.key], styles, lw=1.1)
        axes.axhline(1, color=style.MUTED, lw=0.7)
        axes.axhline(0, color=style.RULE, lw=0.7)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: style.number(x)))
        style.title(axes, family.title)
        curves.step_axis(axes, steps)
    return figure
