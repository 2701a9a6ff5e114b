"""Scores over training: Figure 2a, and a small panel for every game."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from visr.paper.suite.drawing import Drawing, colour, dashes
from visr.paper.suite.game_suites import Suite, name_of
from visr.paper.suite.read import Run, short_count
from visr.paper.suite.rows import agent_name
from visr.report import curves, scores, style
from visr.report.read import Floats
from visr.report.style import Theme

_POINTS = 80  # along the horizontal axis
_ACROSS = 5  # panels beside one another
_CELL, _GAP = 1.0, 0.32  # a panel's width and height, and the room between panels


@dataclass(frozen=True, eq=False)
class Curves:
    """Normalised scores over steps: a line [points] for each agent, game and seed."""

    steps: Floats
    by_agent: dict[str, dict[str, dict[int, Floats]]]
    """By the paper's name of an agent, then by game, then by seed."""


def collect(suite: Suite, runs: Sequence[Run]) -> Curves:
    """Every run's smoothed online scores at common steps; nan before its first and after its last."""
    last = max((float(run.online["num_steps"][-1]) for run in runs), default=0.0)
    steps = np.linspace(0, last, _POINTS + 1)[1:] if last else np.zeros(0)
    found: dict[str, dict[str, dict[int, Floats]]] = {}
    names = _names(runs)
    for run in runs:
        name = names[run.agent, run.num_steps]
        line = _line(suite, run, steps)
        if np.isfinite(line).any():
            found.setdefault(name, {}).setdefault(run.env, {})[run.seed] = line
    by_agent = {agent: dict(sorted(of.items())) for agent, of in sorted(found.items())}
    return Curves(steps, by_agent)


def _names(runs: Sequence[Run]) -> dict[tuple[str, int], str]:
    """Of agents by what was asked of them; with the steps, where one agent was asked for several numbers."""
    lengths: dict[str, set[int]] = {}
    for run in runs:
        lengths.setdefault(run.agent, set()).add(run.num_steps)
    return {
        (run.agent, run.num_steps): agent_name(run)
        + (f", {short_count(run.num_steps)}" if len(lengths[run.agent]) > 1 else "")
        for run in runs
    }


def _line(suite: Suite, run: Run, steps: Floats) -> Floats:
    """One run's normalised running mean at the given steps."""
    at, line = run.online["num_steps"], scores.smoothed(run.online)
    known = np.isfinite(line)
    if not known.any():
        return np.full(len(steps), np.nan)
    spacing = steps[0] if len(steps) else 0.0
    shown = np.interp(steps, at[known], line[known])
    outside = (steps < at[known][0]) | (steps > at[known][-1] + spacing)
    return np.where(outside, np.nan, _normalised(suite, run.env, shown))


def _normalised(suite: Suite, game: str, line: Floats) -> Floats:
    zero, one = suite.normalised(0.0, game), suite.normalised(1.0, game)
    return zero + (one - zero) * line


def over_training(suite: Suite) -> Drawing | None:
    """Figure 2a: the median over games while training goes on, with and without GPI.

    Of finished runs, and of games that every line has: medians over different games are not comparable.
    """
    names = {"visr", "visr-no-gpi", "rf-visr", "rf-visr-no-gpi"}
    found = collect(suite, [run for run in _told(suite) if run.agent in names and run.has_score])
    if not found.by_agent or not suite.is_normalised:
        return None
    every = set().union(*found.by_agent.values())
    shared = sorted(every.intersection(*found.by_agent.values()))
    if not shared:
        return None
    lines = {agent: _median(found, agent, shared) for agent in found.by_agent}
    rows = [
        (agent, float(step), float(mid), float(low), float(high))
        for agent, (middle, least, most) in lines.items()
        for step, mid, low, high in zip(found.steps, middle, least, most, strict=True)
        if np.isfinite(mid)
    ]
    if not rows:
        return None
    num_games, missing = len(shared), sorted(name_of(game) for game in every - set(shared))
    without = f" Left out, as not every line has it: {', '.join(missing)}." if missing else ""
    return Drawing(
        f"{suite.key}_figure_2a",
        "Score with and without GPI over training (Figure 2a)",
        f"Median score over {num_games} games during training: "
        + "; ".join(f"{agent} ends at {_last(line[0]):.1f}" for agent, line in lines.items()),
        f"Median over games ({num_games} here) of the {suite.unit} of the rewarded environments, "
        "each game averaged over seeds; the band reaches from the lowest to the highest seed. "
        f"Solid: with GPI; dashed: without.{without}",
        lambda theme: _draw_over_training(theme, found.steps, lines, suite.unit),
        ("agent", "num_steps", "median", "lowest_seed", "highest_seed"),
        rows,
    )


def _told(suite: Suite) -> list[Run]:
    """Runs whose scores over training are known."""
    return [run for run in suite.runs if run.online]


def _median(found: Curves, agent: str, games: list[str]) -> tuple[Floats, Floats, Floats]:
    """Over games: of the means over seeds, and of the worst and best single seeds that played them all."""
    by_game = [found.by_agent[agent][game] for game in games]
    seeds = set(by_game[0]).intersection(*by_game)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # steps that no run has reached are nan
        middle = np.median([np.nanmean(list(of.values()), axis=0) for of in by_game], axis=0)
        single = [np.median([of[seed] for of in by_game], axis=0) for seed in sorted(seeds)]
        single = single or [middle]
        return middle, np.nanmin(single, axis=0), np.nanmax(single, axis=0)


def _last(line: Floats) -> float:
    known = line[np.isfinite(line)]
    return float(known[-1]) if known.size else float("nan")


def _draw_over_training(
    theme: Theme, steps: Floats, lines: dict[str, tuple[Floats, Floats, Floats]], unit: str
) -> Figure:
    figure = Figure(figsize=(style.WIDTH, 2.9))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.085, right=0.76, bottom=0.14, top=0.95)
    ends = []
    for agent, (middle, low, high) in lines.items():
        paint = colour(theme, agent)
        axes.fill_between(steps, low, high, color=paint, alpha=0.15, lw=0)
        axes.plot(steps, middle, color=paint, ls=dashes(agent), lw=1.6)
        ends.append((_last(middle), f"{agent} {style.number(_last(middle), 1)}", paint))
    axes.axhline(0, color=theme.rule, lw=0.7, zorder=0)
    curves.finish(axes, steps)
    low, high = axes.get_ylim()
    curves.label_ends(axes, ends, gap=0.065 * (high - low), top=high)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.set_ylabel(f"median {unit}", fontsize=7.5)
    return figure


def every_game(suite: Suite) -> Drawing | None:
    """A small panel a game: every agent's mean over seeds, each panel with its own scale."""
    found = collect(suite, _told(suite))
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
    unit = suite.unit
    return Drawing(
        f"{suite.key}_learning_curves",
        "Every game over training",
        f"Learning curves of {len(games)} games, a panel each.",
        f"The {unit} while training goes on, up to {short_count(found.steps[-1])} steps: means "
        "over seeds of the running mean of finished episodes. Each panel runs from its own "
        "lowest to its own highest score, which are written beside it; the fine line is 0"
        + (", what a random player scores." if suite.is_normalised else "."),
        lambda theme: _draw_panels(theme, games, found.steps, lines),
        ("agent", "game", "num_steps", "score"),
        rows,
    )


def _mean(by_seed: dict[int, Floats]) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(list(by_seed.values()), axis=0)


def _draw_panels(
    theme: Theme, games: list[str], steps: Floats, lines: dict[tuple[str, str], Floats]
) -> Figure:
    """All panels in one pair of axes: sixty of matplotlib's own would take seconds."""
    down = -(-len(games) // _ACROSS)
    height = 0.35 + 1.02 * down
    figure = Figure(figsize=(style.WIDTH, height))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.005, right=0.995, bottom=0.02, top=1 - 0.3 / height)
    axes.set_axis_off()
    pitch = _CELL + _GAP
    axes.set_xlim(0, _ACROSS * pitch - _GAP + 0.02)
    axes.set_ylim(-(down * pitch) + 0.12, 0.0)
    for place, game in enumerate(games):
        left, bottom = (place % _ACROSS) * pitch, -(place // _ACROSS) * pitch - _CELL
        own = {agent: line for (agent, g), line in lines.items() if g == game}
        _panel(axes, theme, (left, bottom), name_of(game), steps, own)
    agents = sorted({agent for agent, _ in lines})
    _legend(figure, theme, agents, 1 - 0.12 / height)
    return figure


def _panel(
    axes: Axes,
    theme: Theme,
    corner: tuple[float, float],
    name: str,
    steps: Floats,
    own: dict[str, Floats],
) -> None:
    left, bottom = corner
    values = np.concatenate([line[np.isfinite(line)] for line in own.values()] or [np.zeros(1)])
    low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    span = (high - low) or 1.0
    tall = 0.74 * _CELL
    zero = bottom + tall * (0 - low) / span
    axes.plot([left, left + _CELL], [zero, zero], color=theme.rule, lw=0.6, zorder=0)
    for agent, line in own.items():
        x, y = left + _CELL * steps / steps[-1], bottom + tall * (line - low) / span
        axes.plot(x, y, color=colour(theme, agent), ls=dashes(agent), lw=1.0)
    size = 6.5 if len(name) <= 11 else 5.4
    axes.text(left, bottom + 0.84 * _CELL, name, fontsize=size, fontweight="bold", color=theme.ink)
    note = {"fontsize": 5.5, "color": theme.muted, "ha": "right"}
    axes.text(left + _CELL, bottom + 0.84 * _CELL, _short(high), **note)
    if low < 0:
        axes.text(left + _CELL, bottom - 0.09, _short(low), **note)


def _short(x: float) -> str:
    return style.number(x, 0 if abs(x) >= 10 else 1)


def _legend(figure: Figure, theme: Theme, agents: list[str], height: float) -> None:
    marks = [Line2D([], [], color=colour(theme, a), ls=dashes(a), lw=1.4) for a in agents]
    figure.legend(
        marks, agents, loc="upper left", bbox_to_anchor=(0.0, height + 0.1 / figure.get_figheight()),
        ncols=min(len(agents), 6), frameon=False, fontsize=6.5, labelcolor=theme.muted,
        handlelength=1.8, columnspacing=1.2, borderaxespad=0,
    )  # fmt: skip
