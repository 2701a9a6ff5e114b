"""Aggregates with their intervals side by side, and performance profiles."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from visr.paper.suite import statistics
from visr.paper.suite.drawing import Drawing, colour, line_styles, new_figure, plain_numbers, plot
from visr.paper.suite.game_suites import Suite
from visr.paper.suite.rows import Entry
from visr.paper.suite.statistics import Aggregate, Curve, Interval
from visr.report import style

_MOST_PROFILES = 12
_THRESHOLDS = 101
_LETTER = 0.057  # inches of a letter of a row's name


def _shown(suite: Suite) -> dict[Entry, Aggregate]:
    """Entries with scores, without random search; of an agent trained for several lengths, the longest."""
    longest: dict[str, Entry] = {}
    for entry in suite.entries:
        if (entry.key, suite.largest_set.key) in suite.aggregates and not entry.key.is_search:
            known = longest.get(entry.key.name)
            if known is None or known.key.num_steps < entry.key.num_steps:
                longest[entry.key.name] = entry
    return {entry: suite.aggregates[entry.key, suite.largest_set.key] for entry in longest.values()}


def _games_words(suite: Suite) -> str:
    """The largest set's title, with the number of games that were played if it is smaller."""
    games = suite.largest_set
    played = sum(any(game in entry.scores for entry in suite.entries) for game in games.games)
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
        f"{suite.unit[0].upper()}{suite.unit[1:]} over {_games_words(suite)}. Bars are "
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
        f"The share of runs (averaged over {_games_words(suite)}) whose {suite.unit} is above "
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
