"""Scores during training: Figure 2a, and a small panel for every game."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from visr.paper.suite.drawing import Drawing, LineStyle, add_legend, legend_height, line_styles
from visr.paper.suite.game_suites import Suite, name_of
from visr.paper.suite.read import RunSummary, short_count
from visr.report import curves, scores, style
from visr.report.read import Floats

_POINTS = 80  # along the horizontal axis
_ACROSS = 5  # panels beside each other
_FIGURE_2A = ("GPI VISR", "VISR", "GPI RF VISR", "RF VISR")


@dataclass(frozen=True, eq=False)
class Curves:
    """Normalised scores over steps: a line [points] for each agent, game and seed."""

    steps: Floats
    by_agent: dict[str, dict[str, dict[int, Floats]]]
    """By agent and steps of training, then by game, then by seed."""


def collect(suite: Suite, runs: Sequence[RunSummary]) -> Curves:
    """Smoothed online scores of all runs at common steps; nan before a run's first and after its last."""
    runs = sorted((run for run in runs if run.online), key=lambda run: (run.title, run.env))
    last = max((float(run.online["num_steps"][-1]) for run in runs), default=0.0)
    steps = np.linspace(0, last, _POINTS + 1)[1:] if last else np.zeros(0)
    found: dict[str, dict[str, dict[int, Floats]]] = {}
    for run in runs:
        line = _line(suite, run, steps)
        if np.isfinite(line).any():
            found.setdefault(run.title, {}).setdefault(run.env, {})[run.seed] = line
    return Curves(steps, found)


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
    longest = {
        label: max(r.num_steps for r in runs if r.label == label)
        for label in {r.label for r in runs}
    }
    found = collect(suite, [run for run in runs if run.num_steps == longest[run.label]])
    if not found.by_agent or not suite.is_normalised:
        return None
    every = set().union(*found.by_agent.values())
    shared = sorted(every.intersection(*found.by_agent.values()))
    lines = {agent: _median(of, shared) for agent, of in found.by_agent.items()} if shared else {}
    rows = [
        (agent, float(step), float(mid), float(low), float(high))
        for agent, (middle, least, most) in lines.items()
        for step, mid, low, high in zip(found.steps, middle, least, most, strict=True)
        if np.isfinite(mid)
    ]
    if not rows:
        return None
    num_games, missing = len(shared), sorted(name_of(game) for game in every - set(shared))
    without = f" Not every agent has {', '.join(missing)}: left out." if missing else ""
    return Drawing(
        f"{suite.key}_figure_2a",
        "Score with and without GPI during training (Figure 2a)",
        f"Median score over {num_games} games during training: "
        + "; ".join(f"{agent} ends at {_last(line[0]):.1f}" for agent, line in lines.items()),
        f"Median over games ({num_games} here) of the {suite.unit} in the rewarded environments, "
        "each game averaged over seeds; the band is from the lowest to the highest seed. "
        f"Solid: with GPI; dashed: without.{without}",
        lambda: _draw_over_training(found.steps, lines, suite.unit),
        ("agent", "num_steps", "median", "lowest_seed", "highest_seed"),
        rows,
    )


def _median(
    by_game: dict[str, dict[int, Floats]], games: list[str]
) -> tuple[Floats, Floats, Floats]:
    """Medians over games: of the means over seeds, and the lowest and highest of a single seed."""
    of_games = [by_game[game] for game in games]
    middle = np.median([_over_seeds(np.nanmean, list(of.values())) for of in of_games], axis=0)
    seeds = sorted(set(of_games[0]).intersection(*of_games))
    single = [np.median([of[seed] for of in of_games], axis=0) for seed in seeds] or [middle]
    return middle, _over_seeds(np.nanmin, single), _over_seeds(np.nanmax, single)


def _last(line: Floats) -> float:
    known = line[np.isfinite(line)]
    return float(known[-1]) if known.size else float("nan")


def _draw_over_training(
    steps: Floats, lines: dict[str, tuple[Floats, Floats, Floats]], unit: str
) -> Figure:
    figure = Figure(figsize=(style.WIDTH, 2.9))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.085, right=0.76, bottom=0.14, top=0.95)
    ends, styles = [], line_styles(list(lines))
    for agent, (middle, low, high) in lines.items():
        paint = styles[agent].color
        axes.fill_between(steps, low, high, color=paint, alpha=0.15, lw=0)
        axes.plot(steps, middle, **styles[agent]._asdict(), lw=1.6)
        ends.append((_last(middle), f"{agent}: {style.number(_last(middle), 1)}", paint))
    axes.axhline(0, color=style.RULE, lw=0.7, zorder=0)
    curves.step_axis(axes, steps)
    low, high = axes.get_ylim()
    curves.label_ends(axes, ends, gap=0.065 * (high - low), top=high)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.set_ylabel(f"median {unit}", fontsize=7.5)
    return figure


def every_game(suite: Suite) -> Drawing | None:
    """A small panel for each game with every agent's mean over seeds; each panel has its own scale."""
    found = collect(suite, suite.runs)
    by_game: dict[str, dict[str, Floats]] = {}
    for agent, of in found.by_agent.items():
        for game, by_seed in of.items():
            by_game.setdefault(game, {})[agent] = _over_seeds(np.nanmean, list(by_seed.values()))
    if not by_game:
        return None
    by_game = dict(sorted(by_game.items()))
    rows = [
        (agent, name_of(game), float(step), float(value))
        for game, lines in by_game.items()
        for agent, line in lines.items()
        for step, value in zip(found.steps, line, strict=True)
        if np.isfinite(value)
    ]
    return Drawing(
        f"{suite.key}_learning_curves",
        "Every game during training",
        f"Learning curves of {len(by_game)} games, a panel each.",
        f"The {suite.unit} during training, up to {short_count(found.steps[-1])} steps: means over "
        "seeds of the running mean of finished episodes. Each panel has its own vertical axis; the "
        "horizontal line is 0"
        + (", the score of a random player." if suite.is_normalised else "."),
        lambda: _draw_panels(by_game, found.steps, line_styles(list(found.by_agent))),
        ("agent", "game", "num_steps", "score"),
        rows,
    )


def _draw_panels(
    by_game: dict[str, dict[str, Floats]], steps: Floats, styles: dict[str, LineStyle]
) -> Figure:
    down = -(-len(by_game) // _ACROSS)
    bottom = 0.15 + legend_height(list(styles))
    height = bottom + 1.05 * down
    figure = Figure(figsize=(style.WIDTH, height))
    every = list(figure.subplots(down, _ACROSS, squeeze=False).flat)
    figure.subplots_adjust(
        left=0.045,
        right=0.99,
        bottom=bottom / height,
        top=1 - 0.2 / height,
        wspace=0.4,
        hspace=0.45,
    )
    for axes, (game, lines) in zip(every, by_game.items(), strict=False):
        for agent, line in lines.items():
            axes.plot(steps, line, **styles[agent]._asdict(), lw=1.0)
        _finish_panel(axes, name_of(game), float(steps[-1]))
    for axes in every[len(by_game) :]:
        axes.remove()
    add_legend(figure, styles)
    return figure


def _finish_panel(axes: Axes, name: str, last: float) -> None:
    axes.axhline(0, color=style.RULE, lw=0.6, zorder=0)
    axes.set_title(name, loc="left", fontsize=6.5, fontweight="bold", color=style.INK, pad=2)
    axes.set_xlim(0, last)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.yaxis.set_major_locator(MaxNLocator(2))
    axes.tick_params(axis="y", labelsize=5.5, length=1.5, pad=1)
