"""Figures over all games: scores during training (Figure 2a), aggregates with intervals, and profiles."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from visr.paper.suite import statistics
from visr.paper.suite.drawing import Drawing, colour, line_styles, new_figure, plain_numbers, plot
from visr.paper.suite.entries import Entry, Suite, name_of
from visr.paper.suite.read import RunSummary, short_count
from visr.paper.suite.statistics import Aggregate, Curve, Floats, Interval
from visr.report import curves, scores, style

_POINTS = 80  # along the horizontal axis
_ACROSS = 5  # panels beside each other
_FIGURE_2A = ("GPI VISR", "VISR", "GPI RF VISR", "RF VISR")
_MOST_PROFILES = 12
_MOST_CURVES = 8
_THRESHOLDS = 101
_LETTER = 0.057  # inches of a letter of a row's name

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
    agents, last = _drawn(by_game, list(lines))
    others = len(lines) - len(agents)
    without = f" The CSV file has {others} more agents." if others else ""
    return Drawing(
        f"{suite.key}_learning_curves",
        "Every game during training",
        f"Learning curves of {len(by_game)} games, a panel each.",
        f"The {suite.unit} during training, up to {short_count(last)} steps: means over "
        "seeds of the running mean of finished episodes. Each panel has its own vertical axis; the "
        f"horizontal line is {zero}{without}",
        lambda: _draw_panels(by_game, agents, last),
        ("agent", "game", "num_steps", "score"),
        [
            (agent, name_of(game), *row[:2])
            for game, of in by_game.items()
            for agent, curve in of.items()
            for row in curve.rows()
        ],
    )


def _drawn(by_game: dict[str, dict[str, Curve]], agents: list[str]) -> tuple[list[str], float]:
    """The agents whose lines are drawn, and the last step: those with most games, the best ones first.

    Agents trained for more than four times the median length are left out if there are too many.
    """
    ends = {agent: [_end(of[agent]) for of in by_game.values() if agent in of] for agent in agents}
    middle = float(np.median([steps for of in ends.values() for steps, _ in of]))
    chosen = agents
    if len(agents) > _MOST_CURVES:
        short = [a for a in agents if max(steps for steps, _ in ends[a]) <= 4 * middle]
        ranked = sorted(short, key=lambda a: (-len(ends[a]), -np.mean([y for _, y in ends[a]]), a))
        chosen = [agent for agent in agents if agent in ranked[:_MOST_CURVES]]
    return chosen, max(steps for agent in chosen for steps, _ in ends[agent])


def _end(curve: Curve) -> tuple[float, float]:
    """The last step with a score, and that score."""
    known = np.flatnonzero(np.isfinite(curve.y))
    return (float(curve.x[known[-1]]), float(curve.y[known[-1]])) if known.size else (0.0, 0.0)


def _draw_panels(by_game: dict[str, dict[str, Curve]], agents: list[str], last: float) -> Figure:
    styles, down = line_styles(agents), -(-len(by_game) // _ACROSS)
    figure, every = new_figure(
        1.25 * down, left=0.045, right=0.985, bottom=0.3, top=0.2, down=down, across=_ACROSS,
        legend=styles, wspace=0.35, hspace=0.5,
    )  # fmt: skip
    for axes, (game, of) in zip(every, by_game.items(), strict=False):
        plot(axes, [(agent, of[agent]) for agent in agents if agent in of], styles, lw=1.1)
        axes.axhline(0, color=style.RULE, lw=0.6, zorder=0)
        title = name_of(game)
        axes.set_title(title, loc="left", fontsize=6.5, fontweight="bold", color=style.INK, pad=2)
        axes.set_xlim(0, last)
        axes.set_xticks([0, last], ["0", short_count(last)], fontsize=5.5)
        axes.get_xticklabels()[-1].set_horizontalalignment("right")
        axes.yaxis.set_major_locator(MaxNLocator(2))
        axes.tick_params(axis="y", labelsize=5.5, length=1.5, pad=1)
    for axes in every[len(by_game) :]:
        axes.remove()
    return figure


def _shown(suite: Suite) -> dict[Entry, Aggregate]:
    """Entries with scores, without random search; of an agent trained for several lengths, the longest."""
    longest: dict[str, Entry] = {}
    for entry in suite.entries:
        if (entry.key, suite.largest_set.key) in suite.aggregates and not entry.key.is_search:
            known = longest.get(entry.key.name)
            if known is None or known.key.num_steps < entry.key.num_steps:
                longest[entry.key.name] = entry
    return {entry: suite.aggregates[entry.key, suite.largest_set.key] for entry in longest.values()}


def _games_words(suite: Suite, played: int) -> str:
    """The largest set's title, with the number of games that were played if it is smaller."""
    games = suite.largest_set
    return games.title if played == len(games.games) else f"{played} of {games.title}"


def intervals(suite: Suite) -> Drawing | None:
    """IQM, median and mean side by side, each with its interval."""
    shown = _shown(suite)
    if not shown:
        return None
    most = max(aggregate.num_games for aggregate in shown.values())
    found: dict[str, Aggregate] = {}
    for entry, of in shown.items():
        missing = "" if of.num_games == most else f" ({of.num_games} of {most} games)"
        found[f"{entry.key.name}{missing}"] = of
    order = sorted(found, key=lambda name: (found[name].iqm, name))
    rows = [
        (name, word, value, *((interval.low, interval.high) if interval else ("", "")))
        for name in order
        for word, value, interval in _statistics(found[name])
    ]
    return Drawing(
        f"{suite.key}_intervals",
        "Aggregates with intervals",
        "IQM, median and mean of "
        + "; ".join(f"{name}: IQM {found[name].iqm:.1f}" for name in order),
        f"{suite.unit[0].upper()}{suite.unit[1:]} over {_games_words(suite, most)}. Bars are "
        f"{100 * statistics.LEVEL:g} % stratified bootstrap intervals over seeds; a tick without a "
        "bar has a game with only one seed.",
        lambda: _draw_intervals({name: found[name] for name in order}, suite.unit),
        ("algorithm", "statistic", "value", "low", "high"),
        rows,
    )


def _statistics(found: Aggregate) -> list[tuple[str, float, Interval | None]]:
    return [
        ("IQM", found.iqm, found.iqm_interval),
        ("Median", found.median, found.median_interval),
        ("Mean", found.mean, found.mean_interval),
    ]


def _draw_intervals(found: dict[str, Aggregate], unit: str) -> Figure:
    left = max(0.27, (_LETTER * max(map(len, found)) + 0.1) / style.WIDTH)
    figure, every = new_figure(
        0.24 * len(found) + 0.33, left=left, right=0.985, bottom=0.42, top=0.26,
        across=3, sharey=True, wspace=0.12,
    )  # fmt: skip
    for column, axes in enumerate(every):
        for row, (name, aggregate) in enumerate(found.items()):
            word, value, interval = _statistics(aggregate)[column]
            paint = colour(name)
            if interval is not None:
                width = interval.high - interval.low
                axes.barh(row, width, left=interval.low, height=0.62, color=paint, alpha=0.55, lw=0)
            axes.plot([value, value], [row - 0.36, row + 0.36], color=paint, lw=2)
            axes.axhline(row, color=style.RULE, lw=0.35, zorder=0)
            style.title(axes, word)
        axes.axvline(0, color=style.RULE, lw=0.7, zorder=0)
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(plain_numbers())
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    every[0].set_yticks(range(len(found)), list(found), fontsize=7, color=style.INK)
    every[0].set_ylim(-0.7, len(found) - 0.3)
    every[1].set_xlabel(unit, fontsize=7.5, labelpad=2)
    return figure


def profiles(suite: Suite) -> Drawing | None:
    """The share of runs above each score, for the entries with most games."""
    shown = _shown(suite)
    if not shown:
        return None
    most = max(aggregate.num_games for aggregate in shown.values())
    # agents with pre-training come last in the table, and are shown first if there are many
    entries = [entry for entry, of in shown.items() if of.num_games == most][-_MOST_PROFILES:]
    scores = {entry.key.name: suite.scores(entry, suite.largest_set) for entry in entries}
    per_game = {name: statistics.arrays(of) for name, of in scores.items()}
    everything = np.concatenate([game for of in per_game.values() for game in of])
    low, high = min(0.0, float(np.percentile(everything, 2))), float(np.percentile(everything, 97))
    thresholds = np.linspace(low, max(high, low + 1.0), _THRESHOLDS)
    found = {name: statistics.profile(of, thresholds) for name, of in per_game.items()}
    return Drawing(
        f"{suite.key}_profiles",
        "Performance profiles",
        f"Share of runs above each score, for {', '.join(found)}.",
        f"The share of runs (averaged over {_games_words(suite, most)}) whose {suite.unit} is above "
        "the value on the horizontal axis; higher is better. Bands are pointwise "
        f"{100 * statistics.LEVEL:g} % stratified bootstrap intervals, if every game has two seeds "
        f"or more. Shown are agents that played {most} games.",
        lambda: _draw_profiles(found, suite.unit),
        ("algorithm", "threshold", "share", "low", "high"),
        [(name, *row) for name, profile in found.items() for row in profile.rows()],
    )


def _draw_profiles(found: dict[str, Curve], unit: str) -> Figure:
    styles = line_styles(list(found))
    figure, (axes,) = new_figure(2.7, left=0.105, right=0.98, bottom=0.42, top=0.1, legend=styles)
    plot(axes, found.items(), styles, lw=1.4, drawstyle="steps-post")
    thresholds = next(iter(found.values())).x
    axes.set_ylim(0, 1.02)
    axes.set_xlim(float(thresholds[0]), float(thresholds[-1]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.0f} %"))
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.set_xlabel(unit, fontsize=7.5, labelpad=2)
    axes.set_ylabel("share of runs above", fontsize=7.5)
    return figure
