"""Scores during training: Figure 2a, and a small panel for every game."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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
_CELL, _GAP = 1.0, 0.32  # size of a panel, and the space between panels
_FIGURE_2A = ("GPI VISR", "VISR", "GPI RF VISR", "RF VISR")


@dataclass(frozen=True, eq=False)
class Curves:
    """Normalised scores over steps: a line [points] for each agent, game and seed."""

    steps: Floats
    by_agent: dict[str, dict[str, dict[int, Floats]]]
    """By agent, then by game, then by seed."""


def collect(suite: Suite, runs: Sequence[RunSummary]) -> Curves:
    """Smoothed online scores of all runs at common steps; nan before a run's first and after its last."""
    runs = [run for run in runs if run.online]
    last = max((float(run.online["num_steps"][-1]) for run in runs), default=0.0)
    steps = np.linspace(0, last, _POINTS + 1)[1:] if last else np.zeros(0)
    found: dict[str, dict[str, dict[int, Floats]]] = {}
    names = _names(runs)
    for run in runs:
        line = _line(suite, run, steps)
        if np.isfinite(line).any():
            of = found.setdefault(names[run.label, run.num_steps], {})
            of.setdefault(run.env, {})[run.seed] = line
    by_agent = {agent: dict(sorted(of.items())) for agent, of in sorted(found.items())}
    return Curves(steps, by_agent)


def _names(runs: Sequence[RunSummary]) -> dict[tuple[str, int], str]:
    """Names of agents; with the steps if an agent trained for several numbers of them."""
    lengths: dict[str, set[int]] = {}
    for run in runs:
        lengths.setdefault(run.label, set()).add(run.num_steps)
    return {
        (run.label, run.num_steps): run.label
        + (f", {short_count(run.num_steps)}" if len(lengths[run.label]) > 1 else "")
        for run in runs
    }


def _line(suite: Suite, run: RunSummary, steps: Floats) -> Floats:
    """A run's normalised running mean at the given steps."""
    at, line = run.online["num_steps"], scores.smoothed(run.online)
    known = np.isfinite(line)
    if not known.any():
        return np.full(len(steps), np.nan)
    spacing = steps[0] if len(steps) else 0.0
    shown = np.interp(steps, at[known], line[known])
    outside = (steps < at[known][0]) | (steps > at[known][-1] + spacing)
    zero, one = suite.normalised(0.0, run.env), suite.normalised(1.0, run.env)
    return np.where(outside, np.nan, zero + (one - zero) * shown)


def over_training(suite: Suite) -> Drawing | None:
    """Figure 2a: the median over games during training, with and without GPI.

    Only finished runs, the longest of each agent, and games that every agent has: medians over different
    games are not comparable.
    """
    found = collect(
        suite, _longest([r for r in suite.runs if r.label in _FIGURE_2A and r.has_score])
    )
    if not found.by_agent or not suite.is_normalised:
        return None
    every = set().union(*found.by_agent.values())
    shared = sorted(every.intersection(*found.by_agent.values()))
    lines = {agent: _median(found, agent, shared) for agent in found.by_agent} if shared else {}
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


def _longest(runs: list[RunSummary]) -> list[RunSummary]:
    """The runs of each agent that trained for most steps."""
    most: dict[str, int] = {}
    for run in runs:
        most[run.label] = max(run.num_steps, most.get(run.label, 0))
    return [run for run in runs if run.num_steps == most[run.label]]


def _median(found: Curves, agent: str, games: list[str]) -> tuple[Floats, Floats, Floats]:
    """Medians over games: of the means over seeds, and the lowest and highest of a single seed."""
    by_game = [found.by_agent[agent][game] for game in games]
    seeds = set(by_game[0]).intersection(*by_game)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # steps that no run reached are nan
        middle = np.median([np.nanmean(list(of.values()), axis=0) for of in by_game], axis=0)
        single = [np.median([of[seed] for of in by_game], axis=0) for seed in sorted(seeds)]
        single = single or [middle]
        return middle, np.nanmin(single, axis=0), np.nanmax(single, axis=0)


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
        ends.append((_last(middle), f"{agent} {style.number(_last(middle), 1)}", paint))
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
    games = sorted({game for of in found.by_agent.values() for game in of})
    lines = {(agent, game): _mean(of[game]) for agent, of in found.by_agent.items() for game in of}
    lines = {which: line for which, line in lines.items() if np.isfinite(line).any()}
    if not lines:
        return None
    rows = [
        (agent, name_of(game), float(step), float(value))
        for (agent, game), line in lines.items()
        for step, value in zip(found.steps, line, strict=True)
        if np.isfinite(value)
    ]
    return Drawing(
        f"{suite.key}_learning_curves",
        "Every game during training",
        f"Learning curves of {len(games)} games, a panel each.",
        f"The {suite.unit} during training, up to {short_count(found.steps[-1])} steps: means over "
        "seeds of the running mean of finished episodes. Each panel ranges from its lowest to its "
        "highest score, which are printed beside it; the thin line is 0"
        + (", the score of a random player." if suite.is_normalised else "."),
        lambda: _draw_panels(games, found.steps, lines),
        ("agent", "game", "num_steps", "score"),
        rows,
    )


def _mean(by_seed: dict[int, Floats]) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(list(by_seed.values()), axis=0)


def _draw_panels(games: list[str], steps: Floats, lines: dict[tuple[str, str], Floats]) -> Figure:
    """All panels in one pair of axes, because sixty pairs would take seconds to draw."""
    styles = line_styles(sorted({agent for agent, _ in lines}))
    down = -(-len(games) // _ACROSS)
    bottom = 0.1 + legend_height(list(styles))
    height = bottom + 1.02 * down
    figure = Figure(figsize=(style.WIDTH, height))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.005, right=0.995, bottom=bottom / height, top=1)
    axes.set_axis_off()
    pitch = _CELL + _GAP
    axes.set_xlim(0, _ACROSS * pitch - _GAP + 0.02)
    axes.set_ylim(-(down * pitch) + 0.12, 0.0)
    for place, game in enumerate(games):
        corner = (place % _ACROSS) * pitch, -(place // _ACROSS) * pitch - _CELL
        own = {agent: line for (agent, g), line in lines.items() if g == game}
        _panel(axes, corner, name_of(game), steps, own, styles)
    add_legend(figure, styles)
    return figure


def _panel(
    axes: Axes,
    corner: tuple[float, float],
    name: str,
    steps: Floats,
    own: dict[str, Floats],
    styles: dict[str, LineStyle],
) -> None:
    left, bottom = corner
    values = np.concatenate([line[np.isfinite(line)] for line in own.values()] or [np.zeros(1)])
    low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    span = (high - low) or 1.0
    tall = 0.74 * _CELL
    zero = bottom + tall * (0 - low) / span
    axes.plot([left, left + _CELL], [zero, zero], color=style.RULE, lw=0.6, zorder=0)
    for agent, line in own.items():
        x, y = left + _CELL * steps / steps[-1], bottom + tall * (line - low) / span
        axes.plot(x, y, **styles[agent]._asdict(), lw=1.0)
    size = 6.5 if len(name) <= 11 else 5.4
    axes.text(left, bottom + 0.84 * _CELL, name, fontsize=size, fontweight="bold", color=style.INK)
    note = {"fontsize": 5.5, "color": style.MUTED, "ha": "right"}
    axes.text(left + _CELL, bottom + 0.84 * _CELL, _short(high), **note)
    if low < 0:
        axes.text(left + _CELL, bottom - 0.09, _short(low), **note)


def _short(x: float) -> str:
    return style.number(x, 0 if abs(x) >= 10 else 1)
