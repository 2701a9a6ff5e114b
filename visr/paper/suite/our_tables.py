"""Tables that the paper lacks: robust statistics, claims, every game, and published scores summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from visr import atari_games
from visr.paper.suite import published, statistics
from visr.paper.suite.game_suites import Part, Suite, name_of
from visr.paper.suite.paper_tables import how_much
from visr.paper.suite.read import short_count
from visr.paper.suite.rows import BOTTOM, FROM_SCRATCH, Entry, Key
from visr.paper.suite.statistics import Improvement, Interval
from visr.paper.suite.table import DASH, Row, Table, fixed

_BOOTSTRAP = (
    f"In brackets, {100 * statistics.LEVEL:g} % intervals from a bootstrap stratified by game "
    f"({statistics.REPLICATES:,} replicates); none where a game has one seed only. IQM is the "
    "interquartile mean over all runs: the mean of the middle half."
)


def robust(suite: Suite) -> list[Table]:
    """IQM, median and mean with intervals, for every part of the suite with anything in it."""
    return [_robust(suite, part) for part in suite.parts if _has_any(suite, part)]


def _has_any(suite: Suite, part: Part) -> bool:
    return any((entry.key, part.key) in suite.aggregates for entry in suite.entries)


def _robust(suite: Suite, part: Part) -> Table:
    rows = []
    for entry in suite.entries:
        found = suite.aggregates.get((entry.key, part.key))
        if found is None:
            continue
        cells = [
            f"{entry.key.name} ({how_much(suite, entry)})",
            _within(found.iqm, found.iqm_interval),
            _within(found.median, found.median_interval),
            _within(found.mean, found.mean_interval),
            f"{found.num_above_random}",
            f"{found.num_at_75}",
            f"{found.num_at_100}",
        ]
        rows.append(Row(tuple(cells), is_ours=True))
    return Table(
        name=f"{suite.key}_robust_{part.key}",
        title=f"{suite.title}, {part.title}: IQM, median and mean with intervals",
        caption=f"{suite.scale_words} {_BOOTSTRAP} {part.note}".strip(),
        columns=("Algorithm", "IQM", "Mdn", "M", ">0", "≥75 %", "≥100 %"),
        rows=tuple(rows),
    )


def _within(value: float, interval: Interval | None) -> str:
    if interval is None:
        return fixed(value)
    return f"{fixed(value)} [{fixed(interval.low)}, {fixed(interval.high)}]"


ALL_TOGETHER = "VISR+, relabelled"


@dataclass(frozen=True)
class Claim:
    """That one line of the table beats another."""

    words: str
    better: str
    """Name of an entry, such as `NSQ @10M`; without an @, of an agent after it has met rewards."""
    worse: str


CLAIMS = (
    Claim("Learned features beat random ones", "GPI VISR", "GPI RF VISR"),
    Claim("Learned features beat random ones, without GPI", "VISR", "RF VISR"),
    Claim("GPI helps", "GPI VISR", "VISR"),
    Claim("Regression beats random search on the same data", "GPI VISR", "GPI VISR by search"),
    Claim("VISR beats Q-DIAYN with 5 skills", "GPI VISR", "Q-DIAYN-5"),
    Claim("VISR beats Q-DIAYN with 50 skills", "GPI VISR", "Q-DIAYN-50"),
    Claim("Pre-training beats as many rewarded steps from scratch", "GPI VISR", "NSQ @100k"),
    Claim("Pre-training beats 10 times as many rewarded steps", "GPI VISR", "NSQ @1M"),
    Claim("Pre-training beats 100 times as many rewarded steps", "GPI VISR", "NSQ @10M"),
    Claim("What was learnt is worth more than chance", "GPI VISR", "Random @0"),
)
BEYOND = (
    Claim("Rounds beat the paper's single sweep", "GPI VISR, rounds", "GPI VISR"),
    Claim("Fine-tuning beats inference alone", "GPI VISR, fine-tuned", "GPI VISR"),
    Claim("Fine-tuning beats search alone", "GPI VISR, fine-tuned", "GPI VISR by search"),
    Claim("Pre-training helps fine-tuning", "GPI VISR, fine-tuned", FROM_SCRATCH),
    Claim("All together beat the paper's VISR", ALL_TOGETHER, "GPI VISR"),
    Claim("All together beat NSQ with as many rewarded steps", ALL_TOGETHER, "NSQ @100k"),
    Claim("All together beat NSQ with 10 times as many", ALL_TOGETHER, "NSQ @1M"),
    Claim("All together beat DQN with as many rewarded steps", ALL_TOGETHER, "DQN @100k"),
    Claim("All together beat DQN with 10 times as many", ALL_TOGETHER, "DQN @1M"),
)
"""Ours, of docs/beyond.md."""


@dataclass(frozen=True)
class Contest:
    """A claim, and what these runs say of it."""

    claim: Claim
    better: Entry
    worse: Entry
    found: Improvement
    games_ahead: int
    """Games in which the mean of the first is higher."""


def contests(suite: Suite, which: Sequence[Claim] = CLAIMS) -> list[Contest]:
    """The claims that both sides of were run, on the games that both played."""
    entries: dict[str, list[Entry]] = {}
    for entry in sorted(suite.entries, key=lambda e: e.key.num_steps):
        entries.setdefault(entry.key.name, []).append(entry)
        if entry.key.interaction != "0":
            entries.setdefault(entry.key.algorithm, []).append(entry)
    found = []
    for claim in which:
        if claim.better not in entries or claim.worse not in entries:
            continue
        better, worse = _alike(entries[claim.better], entries[claim.worse])
        shared = [game for game in better.scores if game in worse.scores]
        if shared:
            found.append(_contest(claim, better, worse, shared))
    return found


def _alike(better: list[Entry], worse: list[Entry]) -> tuple[Entry, Entry]:
    """The longest of each; of two that were pre-trained, the longest that were for as many steps."""
    others = {entry.key.num_steps: entry for entry in worse}
    pairs = [(e, others[e.key.num_steps]) for e in better if e.key.num_steps in others]
    longest = better[-1], worse[-1]
    return pairs[-1] if pairs and _are_pretrained(*(e.key for e in longest)) else longest


def _are_pretrained(*keys: Key) -> bool:
    return all(key.section == BOTTOM for key in keys)


def _contest(claim: Claim, better: Entry, worse: Entry, shared: list[str]) -> Contest:
    x, y = ([_array(entry, game) for game in shared] for entry in (better, worse))
    ahead = int(sum(better.mean(game) > worse.mean(game) for game in shared))
    return Contest(claim, better, worse, statistics.improvement(x, y), ahead)


def _array(entry: Entry, game: str) -> statistics.Floats:
    return np.array([entry.scores[game][seed] for seed in sorted(entry.scores[game])])


def claims(suite: Suite) -> Table | None:
    """The paper's claims in plain words; None where no two sides were run."""
    return _claims(suite, CLAIMS, f"{suite.key}_claims", "the paper's claims")


def claims_beyond(suite: Suite) -> Table | None:
    """Ours."""
    return _claims(suite, BEYOND, f"{suite.key}_beyond", "what goes beyond the paper")


def _claims(suite: Suite, which: Sequence[Claim], name: str, title: str) -> Table | None:
    rows = [
        Row(
            (
                c.claim.words,
                _compared(c.better.key, c.worse.key),
                _within(c.found.probability, c.found.interval),
                f"{c.games_ahead} of {c.found.num_games}",
                c.found.verdict,
            ),
            is_ours=True,
        )
        for c in contests(suite, which)
    ]
    if not rows:
        return None
    return Table(
        name=name,
        title=f"{suite.title}: {title}",
        caption=(
            "P is the probability that a run of the first beats a run of the second on a game "
            f"drawn at random, ties counting half, with its {100 * statistics.LEVEL:g} % "
            "stratified bootstrap interval. A claim holds where the whole interval lies above "
            "one half, does not hold where it lies below, and otherwise, or with a single seed, "
            "there is not enough evidence. Few seeds make such intervals too narrow: where there is no "
            "difference at all, five games with three seeds each still get a verdict in about one case of "
            "ten, and a single game in one of five. Games ahead compares means over seeds."
        ),
        columns=("Claim", "Compared", "P", "Games ahead", "Verdict"),
        words=frozenset({1, 4}),
        rows=tuple(rows),
    )


def _compared(better: Key, worse: Key) -> str:
    """Their names; with the steps of pre-training where these are not alike."""
    if not _are_pretrained(better, worse) or better.num_steps == worse.num_steps:
        return f"{better.name} > {worse.name}"
    first, second = (f"{k.name} after {short_count(k.num_steps)} steps" for k in (better, worse))
    return f"{first} > {second}"


def game_scores(suite: Suite) -> Table | None:
    """Every game's mean raw score and its deviation over seeds, a column an entry."""
    entries = [entry for entry in suite.entries if entry.scores]
    if not entries:
        return None
    rows = []
    for game in suite.games:
        cells = [name_of(game), *(_raw(entry, game) for entry in entries)]
        rows.append(Row(tuple(cells), is_ours=True))
    return Table(
        name=f"{suite.key}_games",
        title=f"{suite.title}: raw scores, game by game",
        caption="Means over seeds of mean raw scores of whole episodes, ± the standard deviation over seeds.",
        columns=("Game", *(_column(entry, entries) for entry in entries)),
        rows=tuple(rows),
    )


def _column(entry: Entry, entries: list[Entry]) -> str:
    """Its name; with its steps where the same agent trained for several numbers of them."""
    alike = [e for e in entries if e.key.name == entry.key.name]
    return (
        entry.key.name if len(alike) == 1 else f"{entry.key.name} ({entry.key.num_steps:,} steps)"
    )


def _raw(entry: Entry, game: str) -> str:
    if game not in entry.scores:
        return DASH
    scores = list(entry.scores[game].values())
    mean = fixed(float(np.mean(scores)), 1)
    return f"{mean} ± {np.std(scores, ddof=1):.1f}" if len(scores) > 1 else mean


def published_scores() -> Table:
    """What our arithmetic makes of other people's published scores, game by game."""
    rows = []
    for scores in published.scores():
        cells = [f"{scores.algorithm} @{scores.interaction} {scores.unit.replace('_', ' ')}"]
        for subset in atari_games.subsets():
            of = {game: {0: x} for game, x in scores.normalised(subset).items()}
            found = statistics.aggregate(of)
            cells += [
                fixed(found.median),
                fixed(found.mean),
                f"{found.num_at_75}",
                f"{found.num_games}",
            ]
        rows.append(Row(tuple(cells)))
    notes = " ".join(subset.note for subset in atari_games.subsets() if subset.note)
    return Table(
        name="published_scores",
        title="Published scores, summed up by this code",
        caption=f"Human-normalised; N is how many of the games have a published score. {notes}",
        columns=("Algorithm", *("Mdn", "M", ">H", "N") * 3),
        rows=tuple(rows),
        groups=tuple((subset.title, 4) for subset in atari_games.subsets()),
    )
