"""Scores during training: Figure 2a, and a small panel for every game."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from visr.paper.suite.drawing import Drawing, line_styles, new_figure, plot
from visr.paper.suite.game_suites import Suite, name_of
from visr.paper.suite.read import RunSummary, short_count
from visr.paper.suite.statistics import Curve, Floats, Interval
from visr.report import curves, scores, style

_POINTS = 80  # along the horizontal axis
_ACROSS = 5  # panels beside each other
_FIGURE_2A = ("GPI VISR", "VISR", "GPI RF VISR", "RF VISR")

Lines = dict[str, dict[str, dict[int, Floats]]]
"""[points] by agent and steps of training, then by game, then by seed."""


def collect(suite: Suite, runs: Sequence[RunSummary]) -> tuple[Floats, Lines]:
    """Steps, and smoothed normalised online scores of all runs at these steps.

    A line is nan before a run's first score and after its last.
    """
    runs = sorted((run for run in runs if run.online), key=lambda run: (run.title, run.env))
    last = max((float(run.online["num_steps"][-1]) for run in runs), default=0.0)
    steps = np.linspace(0, last, _POINTS + 1)[1:] if last else np.zeros(0)
    found: Lines = {}
    for run in runs:
        line = _line(suite, run, steps)
        if np.isfinite(line).any():
            found.setdefault(run.title, {}).setdefault(run.env, {})[run.seed] = line
    return steps, found


def _line(suite: Suite, run: RunSummary, steps: Floats) -> Floats:
    """A run's normalised running mean at the given steps."""
    at, line = run.online["num_steps"], scores.smoothed(run.online)
    known = np.isfinite(line)
    if not known.any():
        return np.full(len(steps), np.nan)
    shown = np.interp(steps, at[known], line[known])
    outside = (steps < at[known][0]) | (steps > at[known][-1] + steps[0])
    zero, one = suite.normalised(0.0, run.env), suite.normalised(1.0, run.env)
    return np.where(outside, np.nan, zero + (one - zero) * shown)


def _over_seeds(reduce: Callable[..., Floats], lines: Sequence[Floats]) -> Floats:
    """Mean, minimum or maximum of the lines that reach each step; nan where none does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return reduce(lines, axis=0)


def over_training(suite: Suite) -> Drawing | None:
    """Figure 2a: the median over games during training, with and without GPI.

    Only finished runs, the longest of each agent, and games that every agent has: medians over different
    games are not comparable.
    """
    runs = [run for run in suite.runs if run.label in _FIGURE_2A and run.has_score]
    runs.sort(key=lambda run: run.num_steps)
    longest = {run.label: run.num_steps for run in runs}
    steps, lines = collect(suite, [run for run in runs if run.num_steps == longest[run.label]])
    every = set().union(*lines.values())
    shared = sorted(every.intersection(*lines.values()))
    if not shared or not suite.is_normalised:
        return None
    medians = {agent: _median(steps, [of[game] for game in shared]) for agent, of in lines.items()}
    rows = [(agent, *row) for agent, median in medians.items() for row in median.rows()]
    if not rows:
        return None
    missing = sorted(name_of(game) for game in every - set(shared))
    without = f" Not every agent has {', '.join(missing)}: left out." if missing else ""
    return Drawing(
        f"{suite.key}_figure_2a",
        "Score with and without GPI during training (Figure 2a)",
        f"Median score over {len(shared)} games during training: "
        + "; ".join(f"{agent} ends at {_last(median):.1f}" for agent, median in medians.items()),
        f"Median over games ({len(shared)} here) of the {suite.unit} in the rewarded environments, "
        "each game averaged over seeds; the band is from the lowest to the highest seed. "
        f"Solid: with GPI; dashed: without.{without}",
        lambda: _draw_over_training(medians, suite.unit),
        ("agent", "num_steps", "median", "lowest_seed", "highest_seed"),
        rows,
    )


def _median(steps: Floats, by_seed: list[dict[int, Floats]]) -> Curve:
    """The median over games of means over seeds; its band is that of medians of a single seed."""
    middle = np.median([_over_seeds(np.nanmean, list(of.values())) for of in by_seed], axis=0)
    seeds = sorted(set(by_seed[0]).intersection(*by_seed))
    single = [np.median([of[seed] for of in by_seed], axis=0) for seed in seeds] or [middle]
    band = Interval(_over_seeds(np.nanmin, single), _over_seeds(np.nanmax, single))
    return Curve(steps, middle, band)


def _last(curve: Curve) -> float:
    known = curve.y[np.isfinite(curve.y)]
    return float(known[-1]) if known.size else float("nan")


def _draw_over_training(medians: dict[str, Curve], unit: str) -> Figure:
    figure, (axes,) = new_figure(2.494, left=0.085, right=0.76, bottom=0.406, top=0.145)
    styles = line_styles(list(medians))
    plot(axes, medians.items(), styles, lw=1.6)
    axes.axhline(0, color=style.RULE, lw=0.7, zorder=0)
    curves.step_axis(axes, next(iter(medians.values())).x)
    low, high = axes.get_ylim()
    ends = [
        (_last(median), f"{agent}: {style.number(_last(median), 1)}", styles[agent].color)
        for agent, median in medians.items()
    ]
    curves.label_ends(axes, ends, gap=0.065 * (high - low), top=high)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.set_ylabel(f"median {unit}", fontsize=7.5)
    return figure


def every_game(suite: Suite) -> Drawing | None:
    """A small panel for each game with every agent's mean over seeds; each panel has its own scale."""
    steps, lines = collect(suite, suite.runs)
    by_game = {
        game: {
            agent: Curve(steps, _over_seeds(np.nanmean, list(of[game].values())))
            for agent, of in lines.items()
            if game in of
        }
        for game in sorted(set().union(*lines.values()))
    }
    if not by_game:
        return None
    zero = "0, the score of a random player." if suite.is_normalised else "0."
    return Drawing(
        f"{suite.key}_learning_curves",
        "Every game during training",
        f"Learning curves of {len(by_game)} games, a panel each.",
        f"The {suite.unit} during training, up to {short_count(steps[-1])} steps: means over "
        "seeds of the running mean of finished episodes. Each panel has its own vertical axis; the "
        f"horizontal line is {zero}",
        lambda: _draw_panels(by_game, list(lines)),
        ("agent", "game", "num_steps", "score"),
        [
            (agent, name_of(game), *row[:2])
            for game, of in by_game.items()
            for agent, curve in of.items()
            for row in curve.rows()
        ],
    )


def _draw_panels(by_game: dict[str, dict[str, Curve]], agents: list[str]) -> Figure:
    styles, down = line_styles(agents), -(-len(by_game) // _ACROSS)
    figure, every = new_figure(
        1.05 * down, left=0.045, right=0.99, bottom=0.15, top=0.2, down=down, across=_ACROSS,
        legend=styles, wspace=0.4, hspace=0.45,
    )  # fmt: skip
    for axes, (game, of) in zip(every, by_game.items(), strict=False):
        plot(axes, of.items(), styles, lw=1.0)
        axes.axhline(0, color=style.RULE, lw=0.6, zorder=0)
        title = name_of(game)
        axes.set_title(title, loc="left", fontsize=6.5, fontweight="bold", color=style.INK, pad=2)
        axes.set_xlim(0, float(next(iter(of.values())).x[-1]))
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.yaxis.set_major_locator(MaxNLocator(2))
        axes.tick_params(axis="y", labelsize=5.5, length=1.5, pad=1)
    for axes in every[len(by_game) :]:
        axes.remove()
    return figure
