"""SimPLe's numbers, for docs/agents/simple.md and for its row of Table 1; see results_pages.py."""

from __future__ import annotations

import statistics

import page_parts as r

from visr.paper.suite import statistics as aggregates
from visr.paper.suite.entries import Suite, name_of
from visr.paper.suite.tables import with_interval

Scores = dict[str, dict[int, float]]
"""By game and seed."""
MODEL_COLUMNS = {
    "all cells": "plane_accuracy",
    "if the frame is repeated": "copy_accuracy",
    "objects": "object_accuracy",
    "changed cells": "changed_accuracy",
    "predicted reward where it is 1": "reward_found",
    "wrong after 10": "wrong_after_10",
}


def scores(algorithm: str) -> Scores:
    """Raw scores of an agent of the plan with 100,000 real steps."""
    found: Scores = {}
    for row in r.read("simple/minatar.csv"):
        if row["agent"] == algorithm:
            of = found.setdefault(f"MinAtar/{row['game']}-v1", {})
            of[int(row["seed"])] = float(row["score"])
    return found


def normalised(suite: Suite, found: Scores) -> Scores:
    """The scores where 0 is a random policy and 100 the suite's reference."""
    return {g: {s: suite.normalised(x, g) for s, x in of.items()} for g, of in found.items()}


def table_row(suite: Suite) -> list[str]:
    """SimPLe's cells of Table 1, from its seeds on."""
    rows = [row for row in r.read("simple/minatar.csv") if row["agent"] == "simple"]
    found = aggregates.aggregate(normalised(suite, scores("simple")))
    updates = statistics.mean(float(row["model_updates"]) for row in rows)
    counts = sorted({len(of) for of in scores("simple").values()})
    seeds = " to ".join(map(str, {counts[0]: 0, counts[-1]: 0}))
    return [
        seeds, "100k", f"{updates:,.0f} of the model",
        with_interval(found.median, found.median_interval), with_interval(found.mean, found.mean_interval),
        with_interval(found.iqm, found.iqm_interval), f"{found.num_above_random} of {found.num_games}", "",
    ]  # fmt: skip


def page(suite: Suite) -> str:
    """The tables of docs/agents/simple.md."""
    return "\n\n".join([_scores(suite), _against_ppo(suite), _model()])


def _scores(suite: Suite) -> str:
    simple, ppo = scores("simple"), scores("ppo")
    dqn: Scores = next((e.scores for e in suite.entries if e.key.name == "DQN @100k"), {})
    constant = r.by(r.read("replay/minatar.csv"), "game")
    rows = []
    for game in suite.games:
        best = statistics.mean(float(row["best_constant"]) for row in constant[name_of(game),])
        cells = [_by_seed(of.get(game, {})) for of in (simple, ppo, dqn)]
        rows.append([name_of(game), *cells, f"{suite.scale[game][0]:.2f}", f"{best:.1f}"])
    words = (
        "Mean raw scores of 30 episodes after 100,000 real steps: the mean over seeds, and in brackets seed 0, seed 1. The standard errors over "
        "episodes are in `results/simple/minatar.csv`, DQN is in `results/minatar/`, the random policy and the best constant action are [MinAtar](../results/minatar.md)'s:"
    )
    columns = ["game", "SimPLe", "PPO", "DQN", "random", "best constant action"]
    return f"{words}\n\n{r.table(columns, rows)}"


def _by_seed(of: dict[int, float]) -> str:
    if not of:
        return "not run"
    each = ", ".join(f"{of[seed]:.2f}" for seed in sorted(of))
    return f"{statistics.mean(of.values()):.2f} ({each if len(of) > 1 else 'one seed'})"


def _against_ppo(suite: Suite) -> str:
    simple, ppo = scores("simple"), scores("ppo")
    ahead = [
        g
        for g in suite.games
        if statistics.mean(simple[g].values()) > statistics.mean(ppo[g].values())
    ]
    always = [g for g in ahead if min(simple[g].values()) > max(ppo[g].values())]
    found = aggregates.improvement(
        *(aggregates.arrays(normalised(suite, of)) for of in (simple, ppo))
    )
    named = ", ".join(name_of(g) for g in always)
    return (
        f"SimPLe's mean is above PPO's in {len(ahead)} of {len(suite.games)} games, every seed above every seed of PPO in {len(always)} ({named}). "
        f"P(a run of SimPLe scores higher than one of PPO in a random game) is {with_interval(found.probability, found.interval)}: {found.verdict}."
    )  # fmt: skip


def _model() -> str:
    rows = []
    for (game,), of in r.by(
        [x for x in r.read("simple/minatar.csv") if x["agent"] == "simple"], "game"
    ).items():
        digits = {"plane_accuracy": 4, "copy_accuracy": 4}
        rows.append([game, *(
            ", ".join(f"{float(row[c]):.{digits.get(c, 2)}f}".lstrip("0") for row in of) for c in MODEL_COLUMNS.values()
        )])  # fmt: skip
    words = (
        "What limits it is the model (held-out steps, one step ahead, seed by seed; the last column: objects in the wrong place after 10 steps "
        "of the model alone):"
    )
    return f"{words}\n\n{r.table(['game', *MODEL_COLUMNS], rows)}"
