"""What aggregates hide: intervals side by side, and performance profiles."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from visr.paper.suite import statistics
from visr.paper.suite.drawing import Drawing, colour, dashes
from visr.paper.suite.game_suites import Part, Suite
from visr.paper.suite.rows import Entry
from visr.paper.suite.statistics import Aggregate, Interval, Profile
from visr.report import style
from visr.report.style import Theme

_MOST = 12  # lines of a profile that one can still tell apart
_THRESHOLDS = 101
_LETTER = 0.057  # inches of a letter of a row's name


def _shown(suite: Suite, part: Part) -> list[Entry]:
    """Entries with anything in the part, search left aside; of one agent's several lengths, the longest."""
    longest: dict[str, Entry] = {}
    for entry in suite.entries:
        is_wanted = (entry.key, part.key) in suite.aggregates
        if is_wanted and "by search" not in entry.key.algorithm:
            known = longest.get(entry.key.name)
            if known is None or known.key.num_steps < entry.key.num_steps:
                longest[entry.key.name] = entry
    return list(longest.values())


def widest_part(suite: Suite) -> Part:
    """The part with most games: what figures show."""
    return max(suite.parts, key=lambda part: len(part.games))


def _games(suite: Suite, part: Part) -> str:
    """How many of the part's games were played at all."""
    played = sum(any(game in entry.scores for entry in suite.entries) for game in part.games)
    return part.title if played == len(part.games) else f"{played} of {part.title}"


def intervals(suite: Suite) -> Drawing | None:
    """IQM, median and mean side by side, each with its interval."""
    part = widest_part(suite)
    of = [(entry, suite.aggregates[entry.key, part.key]) for entry in _shown(suite, part)]
    most = max((aggregate.num_games for _, aggregate in of), default=0)
    found = {_row(entry, aggregate, most): aggregate for entry, aggregate in of}
    if not found:
        return None
    order = sorted(found, key=lambda name: (found[name].iqm, name))
    rows = [(name, word, *numbers) for name in order for word, *numbers in _numbers(found[name])]
    return Drawing(
        f"{suite.key}_intervals",
        "How sure one can be",
        "IQM, median and mean of "
        + "; ".join(f"{name}: IQM {found[name].iqm:.1f}" for name in order),
        f"{suite.unit[0].upper()}{suite.unit[1:]} over {_games(suite, part)}: bars are "
        f"{100 * statistics.LEVEL:g} % stratified bootstrap intervals over seeds; a lone tick has "
        "one seed only, and nothing tells how sure it is.",
        lambda theme: _draw_intervals(theme, order, found, suite.unit),
        ("algorithm", "statistic", "value", "low", "high"),
        rows,
    )


def _row(entry: Entry, found: Aggregate, most: int) -> str:
    """The entry's name, and of how many games it speaks where others played more."""
    played = found.num_games
    return entry.key.name if played == most else f"{entry.key.name} ({played} of {most} games)"


def _numbers(found: Aggregate) -> list[tuple[str, float, object, object]]:
    return [
        (word, value, "" if i is None else i.low, "" if i is None else i.high)
        for word, value, i in _statistics(found)
    ]


def _statistics(found: Aggregate) -> list[tuple[str, float, Interval | None]]:
    return [
        ("IQM", found.iqm, found.iqm_interval),
        ("Median", found.median, found.median_interval),
        ("Mean", found.mean, found.mean_interval),
    ]


def _draw_intervals(
    theme: Theme, order: list[str], found: dict[str, Aggregate], unit: str
) -> Figure:
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
            paint = colour(theme, name)
            if interval is not None:
                width = interval.high - interval.low
                axes.barh(row, width, left=interval.low, height=0.62, color=paint, alpha=0.55, lw=0)
            axes.plot([value, value], [row - 0.36, row + 0.36], color=paint, lw=2)
            axes.axhline(row, color=theme.rule, lw=0.35, zorder=0)
            style.title(axes, word, theme.ink)
        axes.axvline(0, color=theme.rule, lw=0.7, zorder=0)
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}".replace("-", "−")))
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    every[0].set_yticks(range(len(order)), order, fontsize=7, color=theme.ink)
    every[0].set_ylim(-0.7, len(order) - 0.3)
    every[1].set_xlabel(unit, fontsize=7.5, labelpad=2)
    return figure


def profiles(suite: Suite) -> Drawing | None:
    """The share of runs above each score."""
    part = widest_part(suite)
    entries = _shown(suite, part)[-_MOST:]  # what met rewards after pre-training comes last
    if not entries:
        return None
    arrays = {entry.key.name: _arrays(suite, entry, part) for entry in entries}
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
        f"The share of runs (games weighing alike, {_games(suite, part)}) whose {suite.unit} is "
        "above the value on the horizontal axis: a higher line is better everywhere it is "
        f"higher. Bands are pointwise {100 * statistics.LEVEL:g} % stratified bootstrap "
        "intervals, where every game has two seeds or more.",
        lambda theme: _draw_profiles(theme, found, suite.unit),
        ("algorithm", "threshold", "share", "low", "high"),
        rows,
    )


def _arrays(suite: Suite, entry: Entry, part: Part) -> list[statistics.Floats]:
    return [np.array([of[s] for s in sorted(of)]) for of in suite.scores(entry, part).values()]


def _band(profile: Profile, place: int) -> tuple[object, object]:
    if profile.low is None or profile.high is None:
        return "", ""
    return float(profile.low[place]), float(profile.high[place])


def _draw_profiles(theme: Theme, found: dict[str, Profile], unit: str) -> Figure:
    figure = Figure(figsize=(style.WIDTH, 3.2))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.075, right=0.74, bottom=0.13, top=0.96)
    x = next(iter(found.values())).thresholds
    for name, profile in found.items():
        paint = colour(theme, name)
        if profile.low is not None and profile.high is not None:
            axes.fill_between(x, profile.low, profile.high, color=paint, alpha=0.12, lw=0)
        axes.plot(
            x, profile.share, color=paint, ls=dashes(name), lw=1.4, label=name,
            drawstyle="steps-post",
        )  # fmt: skip
    axes.set_ylim(0, 1.02)
    axes.set_xlim(float(x[0]), float(x[-1]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.0f} %"))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}".replace("-", "−")))
    axes.set_xlabel(unit, fontsize=7.5, labelpad=2)
    axes.set_ylabel("share of runs above", fontsize=7.5)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.02), frameon=False, fontsize=6.8,
        labelcolor=theme.ink, handlelength=1.8,
    )  # fmt: skip
    return figure
