"""Two agents game by game: Figure 2b (regression and random search) and Figure 2c (VISR and DQN)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from visr import atari_games
from visr.paper.suite import published
from visr.paper.suite.drawing import Drawing, new_figure, plain_numbers
from visr.paper.suite.entries import Entry, Suite, name_of
from visr.paper.suite.read import short_count
from visr.report import scores, style
from visr.report.style import PALETTE

_ROW = 0.165  # inches of a game's row
_WIDE_RANGE = 300.0  # per cent from which an axis is logarithmic beyond 10
_PAPER_2B = " In the paper it is ahead on 41 of 57, one tied; means 109.16 and 63.57, medians 8.99 and 3.45."
_LAST = 200.0  # the last million of frames of the published curves


def regression_or_search(suite: Suite) -> Drawing | None:
    """Figure 2b: the same data and the same agent, with two ways to choose w."""
    for name in ("GPI VISR @100k", "VISR @100k"):
        regression, search = suite.longest(name), suite.longest(name.replace(" @", " by search @"))
        if regression is not None and search is not None:
            break
    else:
        return None
    rows = [
        (name_of(game), suite.mean(regression, game), suite.mean(search, game))
        for game in regression.scores
        if game in search.scores
    ]
    rows.sort(key=lambda row: (row[1], row[0]))
    ahead = sum(one > other for _, one, other in rows)
    ties = sum(one == other for _, one, other in rows)
    result = f"Regression is ahead on {ahead} of {len(rows)} games"
    result += f", {ties} tied." if ties else "."
    return Drawing(
        f"{suite.key}_figure_2b",
        "Regression and random search (Figure 2b)",
        f"{regression.key.name}, game by game. {result}",
        f"{regression.key.name}: {suite.unit} with w from regression (blue) and from random "
        f"search on the same data (red), means over seeds. {result}"
        + (_PAPER_2B if suite.is_atari else ""),
        lambda: _draw_pairs(rows, suite.unit),
        ("game", "regression", "search"),
        rows,
    )


def _draw_pairs(rows: list[tuple[str, float, float]], unit: str) -> Figure:
    figure, axes = _named_rows([name for name, _, _ in rows])
    blue, red = PALETTE["blue"], PALETTE["vermilion"]
    for place, (_, one, other) in enumerate(rows):
        paint = blue if one > other else red
        axes.plot([one, other], [place, place], color=paint, lw=1.2, alpha=0.45)
    regression, search = (np.array([row[i] for row in rows]) for i in (1, 2))
    axes.plot(search, range(len(rows)), "o", color=red, ms=4, mew=0)
    axes.plot(regression, range(len(rows)), "o", color=blue, ms=4, mew=0)
    _score_axis(axes, np.concatenate([regression, search]))
    axes.axvline(0, color=style.MUTED, lw=0.7, zorder=0)
    axes.set_xlabel(unit, fontsize=7.5, labelpad=2)
    top = 1 + 0.08 / figure.get_figheight()
    for x, words, paint in ((0.0, "regression", blue), (0.2, "random search", red)):
        axes.text(x, top, f"● {words}", transform=axes.transAxes, fontsize=7.5, color=paint)
    return figure


def _named_rows(names: list[str]) -> tuple[Figure, Axes]:
    """An empty figure with a named row for each game."""
    height = _ROW * len(names) + 0.38
    figure, (axes,) = new_figure(height, left=0.19, right=0.97, bottom=0.42, top=0.28)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_yticks(range(len(names)), names, fontsize=6.5, color=style.INK)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for row in range(len(names)):
        axes.axhline(row, color=style.RULE, lw=0.35, zorder=0)
    return figure, axes


def _score_axis(axes: Axes, values: np.ndarray) -> None:
    """Linear for a small range; else linear to 10 and logarithmic beyond."""
    if values.size and float(np.ptp(values)) > _WIDE_RANGE:
        axes.set_xscale("symlog", linthresh=10, linscale=0.6)
        ticks = [-1000, -100, -10, 0, 10, 100, 1000, 10_000, 100_000]
        low, high = float(values.min()), float(values.max())
        axes.set_xticks([t for t in ticks if low - abs(low) <= t <= high * 2 or t == 0])
        axes.minorticks_off()
        axes.set_xlim(1.3 * low - 2, 1.3 * high)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(plain_numbers())


@dataclass(frozen=True)
class Match:
    """Millions of frames that DQN needs for the same score; infinity if it never reaches it."""

    game: str
    score: float
    published: float | None
    """By Dopamine's curves, which end at 199 million; None without a curve."""
    own: float | None
    """By our own DQN runs; None without a run."""

    @property
    def shown(self) -> float:
        """The published number if there is one, else our own."""
        frames = self.own if self.published is None else self.published
        return np.inf if frames is None else frames

    @property
    def hue(self) -> str:
        """Green if DQN never reaches the score, red if it does within a million frames, else yellow."""
        return "green" if np.isinf(self.shown) else "vermilion" if self.shown <= 1 else "orange"

    def row(self) -> tuple[object, ...]:
        """Its line of the CSV file."""
        frames = (
            "" if x is None else "never" if np.isinf(x) else x for x in (self.published, self.own)
        )
        return name_of(self.game), self.score, *frames


def frames_of_dqn(suite: Suite) -> Drawing | None:
    """Figure 2c: frames that DQN needs for the score of VISR after 100k rewarded steps."""
    entry = suite.longest("GPI VISR @100k") or suite.longest("VISR @100k")
    found = [_match(suite, entry, game) for game in entry.scores] if entry else []
    found = [match for match in found if match.published is not None or match.own is not None]
    if entry is None or not found:
        return None
    found.sort(key=lambda m: (m.shown, m.game))
    words = (
        f"Frames until DQN first has the score of {entry.key.name} "
        f"({entry.key.num_steps:,} reward-free steps)"
    )
    return Drawing(
        f"{suite.key}_figure_2c",
        "Frames that DQN needs for the same score (Figure 2c)",
        f"{words}, for {len(found)} games.",
        f"{words}: never in {sum(m.hue == 'green' for m in found)} of {len(found)} games (green), "
        f"within the first million in {sum(m.hue == 'vermilion' for m in found)} (red), else later "
        "(yellow). Diamonds: our own DQN runs. Bars: Dopamine's published DQN on Atari, mean of 5 "
        "runs, sticky actions, to 199 million frames; light bars are games of the 26.",
        lambda: _draw_frames(found),
        ("game", "score", "published_dqn_million_frames", "own_dqn_million_frames"),
        [match.row() for match in found],
    )


def _match(suite: Suite, entry: Entry, game: str) -> Match:
    known, score = atari_games.by_id(game), entry.mean(game)
    curve = published.dqn_curves().get(known.name) if known else None
    reference = None if curve is None else published.frames_to_match(curve, score)
    return Match(game, score, reference, _own_dqn(suite, game, score))


def _own_dqn(suite: Suite, game: str, score: float) -> float | None:
    """Millions of frames until our longest DQN runs first reached the score: the median over seeds."""
    runs = [r for r in suite.runs if r.env == game and r.label.startswith("DQN") and r.online]
    longest = max((run.num_steps for run in runs), default=0)
    reached = []
    for run in (run for run in runs if run.num_steps == longest):
        at = np.flatnonzero(np.nan_to_num(scores.smoothed(run.online), nan=-np.inf) >= score)
        step = float(run.online["num_steps"][at[0]]) if at.size else np.inf
        reached.append(step * (run.frame_skip if suite.is_atari else 1) / 1e6)
    return float(np.median(reached)) if reached else None


def _draw_frames(found: list[Match]) -> Figure:
    figure, axes = _named_rows([name_of(m.game) for m in found])
    known = [m.own for m in found if m.own is not None and np.isfinite(m.own)]
    low, high = 0.0, 1.1 * max(known, default=1.0)
    if any(match.published is not None for match in found):
        low, high = 0.5, _LAST
        axes.set_xscale("log")
        axes.set_xticks([1, 2, 5, 10, 20, 50, 100, 200])
        axes.minorticks_off()
    in_26 = {game.id for game in atari_games.all_games() if game.in_26}
    for row, match in enumerate(found):
        axes.axhspan(row - 0.5, row + 0.5, color=PALETTE[match.hue], alpha=0.22, lw=0)
        if match.published is not None:
            paint = PALETTE["sky" if match.game in in_26 else "blue"]
            axes.barh(row, min(match.published, high) - low, left=low, height=0.62, color=paint)
        if match.own is not None and np.isfinite(match.own):
            axes.plot(match.own, row, "D", color=style.INK, ms=3.5, mew=0, clip_on=False)
        if match.hue == "green":
            paint = style.MUTED if match.published is None else "white"
            axes.text(high * 0.96, row, "never", ha="right", va="center", fontsize=5.5, color=paint)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short_count(x * 1e6)))
    axes.set_xlabel("frames of DQN", fontsize=7.5, labelpad=2)
    return figure
