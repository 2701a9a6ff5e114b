"""Aggregates with their intervals side by side, and performance profiles."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from visr.atari_games import GameSet
from visr.paper.suite import statistics
from visr.paper.suite.drawing import Drawing, add_legend, colour, legend_height, line_styles
from visr.paper.suite.game_suites import Suite
from visr.paper.suite.rows import Entry
from visr.paper.suite.statistics import Aggregate, Interval, Profile
from visr.report import style

_MOST_PROFILES = 12
_THRESHOLDS = 101
_LETTER = 0.057  # inches of a letter of a row's name


def _shown(suite: Suite, games: GameSet) -> dict[Entry, Aggregate]:
    """Entries with scores, without random search; of an agent trained for several lengths, the longest."""
    longest: dict[str, Entry] = {}
    for entry in suite.entries:
        if (entry.key, games.key) in suite.aggregates and not entry.key.is_search:
            known = longest.get(entry.key.name)
            if known is None or known.key.num_steps < entry.key.num_steps:
                longest[entry.key.name] = entry
    return {entry: suite.aggregates[entry.key, games.key] for entry in longest.values()}


def _games_words(suite: Suite, games: GameSet) -> str:
    """The set's title, with the number of games that were played if it is smaller."""
    played = sum(any(game in entry.scores for entry in suite.entries) for game in games.games)
    return games.title if played == len(games.games) else f"{played} of {games.title}"


def intervals(suite: Suite) -> Drawing | None:
    """IQM, median and mean side by side, each with its interval."""
    games = suite.largest_set
    shown = _shown(suite, games)
    if not shown:
        return None
    most = max(aggregate.num_games for aggregate in shown.values())
    found = {_row_name(entry, of, most): of for entry, of in shown.items()}
    order = sorted(found, key=lambda name: (found[name].iqm, name))
    rows = [
        (name, word, value, *(("", "") if interval is None else (interval.low, interval.high)))
        for name in order
        for word, value, interval in _statistics(found[name])
    ]
    return Drawing(
        f"{suite.key}_intervals",
        "Aggregates with intervals",
        "IQM, median and mean of "
        + "; ".join(f"{name}: IQM {found[name].iqm:.1f}" for name in order),
        f"{suite.unit[0].upper()}{suite.unit[1:]} over {_games_words(suite, games)}. Bars are "
        f"{100 * statistics.LEVEL:g} % stratified bootstrap intervals over seeds; a tick without a "
        "bar has a game with only one seed.",
        lambda: _draw_intervals(order, found, suite.unit),
        ("algorithm", "statistic", "value", "low", "high"),
        rows,
    )


def _row_name(entry: Entry, found: Aggregate, most: int) -> str:
    """The entry's name, with its number of games if other entries played more."""
    played = found.num_games
    return entry.key.name if played == most else f"{entry.key.name} ({played} of {most} games)"


def _statistics(found: Aggregate) -> list[tuple[str, float, Interval | None]]:
    return [
        ("IQM", found.iqm, found.iqm_interval),
        ("Median", found.median, found.median_interval),
        ("Mean", found.mean, found.mean_interval),
    ]


def _draw_intervals(order: list[str], found: dict[str, Aggregate], unit: str) -> Figure:
    height = 0.24 * len(order) + 0.75
    figure = Figure(figsize=(style.WIDTH, height))
    every = figure.subplots(1, 3, sharey=True)
    longest = max(len(name) for name in order)
    left = max(0.27, (_LETTER * longest + 0.1) / style.WIDTH)
    figure.subplots_adjust(
        left=left, right=0.985, bottom=0.42 / height, top=1 - 0.26 / height, wspace=0.12
    )
    for column, axes in enumerate(every):
        for row, name in enumerate(order):
            word, value, interval = _statistics(found[name])[column]
            paint = colour(name)
            if interval is not None:
                width = interval.high - interval.low
                axes.barh(row, width, left=interval.low, height=0.62, color=paint, alpha=0.55, lw=0)
            axes.plot([value, value], [row - 0.36, row + 0.36], color=paint, lw=2)
            axes.axhline(row, color=style.RULE, lw=0.35, zorder=0)
            style.title(axes, word)
        axes.axvline(0, color=style.RULE, lw=0.7, zorder=0)
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}".replace("-", "−")))
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    every[0].set_yticks(range(len(order)), order, fontsize=7, color=style.INK)
    every[0].set_ylim(-0.7, len(order) - 0.3)
    every[1].set_xlabel(unit, fontsize=7.5, labelpad=2)
    return figure


def profiles(suite: Suite) -> Drawing | None:
    """The share of runs above each score, for the entries with most games."""
    games = suite.largest_set
    shown = _shown(suite, games)
    if not shown:
        return None
    most = max(aggregate.num_games for aggregate in shown.values())
    # agents with pre-training come last in the table, and are shown first if there are many
    entries = [entry for entry, of in shown.items() if of.num_games == most][-_MOST_PROFILES:]
    arrays = {entry.key.name: _arrays(suite, entry, games) for entry in entries}
    everything = np.concatenate([game for of in arrays.values() for game in of])
    low, high = min(0.0, float(np.percentile(everything, 2))), float(np.percentile(everything, 97))
    thresholds = np.linspace(low, max(high, low + 1.0), _THRESHOLDS)
    found = {name: statistics.profile(of, thresholds) for name, of in arrays.items()}
    rows = [
        (name, float(t), float(share), *_band(profile, i))
        for name, profile in found.items()
        for i, (t, share) in enumerate(zip(thresholds, profile.share, strict=True))
    ]
    return Drawing(
        f"{suite.key}_profiles",
        "Performance profiles",
        f"Share of runs above each score, for {', '.join(found)}.",
        f"The share of runs (averaged over {_games_words(suite, games)}) whose {suite.unit} is above "
        "the value on the horizontal axis; higher is better. Bands are pointwise "
        f"{100 * statistics.LEVEL:g} % stratified bootstrap intervals, if every game has two seeds "
        f"or more. Shown are agents that played {most} games.",
        lambda: _draw_profiles(found, suite.unit),
        ("algorithm", "threshold", "share", "low", "high"),
        rows,
    )


def _arrays(suite: Suite, entry: Entry, games: GameSet) -> list[statistics.Floats]:
    return [np.array([of[s] for s in sorted(of)]) for of in suite.scores(entry, games).values()]


def _band(profile: Profile, place: int) -> tuple[object, object]:
    if profile.low is None or profile.high is None:
        return "", ""
    return float(profile.low[place]), float(profile.high[place])


def _draw_profiles(found: dict[str, Profile], unit: str) -> Figure:
    bottom = 0.42 + legend_height(list(found))
    height = 2.7 + bottom
    figure = Figure(figsize=(style.WIDTH, height))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.105, right=0.98, bottom=bottom / height, top=1 - 0.1 / height)
    x, styles = next(iter(found.values())).thresholds, line_styles(list(found))
    for name, profile in found.items():
        if profile.low is not None and profile.high is not None:
            paint = styles[name].color
            axes.fill_between(x, profile.low, profile.high, color=paint, alpha=0.12, lw=0)
        axes.plot(x, profile.share, **styles[name]._asdict(), lw=1.4, drawstyle="steps-post")
    axes.set_ylim(0, 1.02)
    axes.set_xlim(float(x[0]), float(x[-1]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.0f} %"))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}".replace("-", "−")))
    axes.set_xlabel(unit, fontsize=7.5, labelpad=2)
    axes.set_ylabel("share of runs above", fontsize=7.5)
    add_legend(figure, styles)
    return figure
