"""Claims that one agent beats another, and what the runs say about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from visr.paper.suite import statistics
from visr.paper.suite.entries import BOTTOM, FROM_SCRATCH, WITHOUT_FREE, Entry, Key, Suite
from visr.paper.suite.read import short_count
from visr.paper.suite.statistics import Improvement
from visr.paper.suite.tables import Table, TableRow, with_interval

_PLUS = "VISR+, relabelled"
_CAPTION = (
    "P is the probability that a run of the first agent scores higher than a run of the second on a "
    f"random game, ties counting half, with its {100 * statistics.LEVEL:g} % stratified bootstrap "
    "interval. A claim holds if the whole interval is above one half, and does not hold if it is "
    "below; otherwise, or with a single seed, there is not enough evidence. With few seeds these "
    "intervals are too narrow: if two agents are equal, five games with three seeds each still give "
    "a verdict in about one of ten cases, and a single game in one of five. Games ahead compares "
    "means over seeds."
)


@dataclass(frozen=True)
class Claim:
    """That one entry of the table scores higher than another."""

    words: str
    better: str
    """Name of an entry, such as `NSQ @10M`; without @, the entry of an agent after it was given a task."""
    worse: str


PAPER = (
    Claim("Learned features beat random ones", "GPI VISR", "GPI RF VISR"),
    Claim("Learned features beat random ones, without GPI", "VISR", "RF VISR"),
    Claim("GPI helps", "GPI VISR", "VISR"),
    Claim("Regression beats random search on the same data", "GPI VISR", "GPI VISR by search"),
    Claim("VISR beats Q-DIAYN with 5 skills", "GPI VISR", "Q-DIAYN-5"),
    Claim("VISR beats Q-DIAYN with 50 skills", "GPI VISR", "Q-DIAYN-50"),
    Claim("Pre-training beats as many rewarded steps from scratch", "GPI VISR", "NSQ @100k"),
    Claim("Pre-training beats 10 times as many rewarded steps", "GPI VISR", "NSQ @1M"),
    Claim("Pre-training beats 100 times as many rewarded steps", "GPI VISR", "NSQ @10M"),
    Claim("VISR beats a random policy", "GPI VISR", "Random @0"),
)
BEYOND = (
    Claim("Rounds beat the paper's single sweep", "GPI VISR, rounds", "GPI VISR"),
    Claim("Fine-tuning beats inference alone", "GPI VISR, fine-tuned", "GPI VISR"),
    Claim("Fine-tuning beats search alone", "GPI VISR, fine-tuned", "GPI VISR by search"),
    Claim("Pre-training helps fine-tuning", "GPI VISR, fine-tuned", FROM_SCRATCH),
    Claim("VISR+ with relabelling beats the paper's VISR", _PLUS, "GPI VISR"),
    Claim("VISR+ with relabelling beats NSQ with as many rewarded steps", _PLUS, "NSQ @100k"),
    Claim("VISR+ with relabelling beats NSQ with 10 times as many", _PLUS, "NSQ @1M"),
    Claim("VISR+ with relabelling beats NSQ with as many updates", _PLUS, "NSQ @10M"),
    Claim("Free steps help the same learner with as many updates", _PLUS, WITHOUT_FREE),
    Claim("VISR+ with relabelling beats DQN with as many rewarded steps", _PLUS, "DQN @100k"),
    Claim("VISR+ with relabelling beats DQN with 10 times as many", _PLUS, "DQN @1M"),
)
"""Our own, of docs/agents/additions.md; `rounds` is in adapted.json of older versions only."""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its evidence."""

    claim: Claim
    better: Entry
    worse: Entry
    found: Improvement
    games_ahead: int
    """Games in which the mean of the first is higher."""


def judge(suite: Suite, claims: Sequence[Claim]) -> list[JudgedClaim]:
    """Those claims whose two agents both have scores, on the games that both played."""
    entries: dict[str, list[Entry]] = {}
    for entry in sorted(suite.entries, key=lambda e: e.key.num_steps):
        entries.setdefault(entry.key.name, []).append(entry)
        if entry.key.interaction != "0":
            entries.setdefault(entry.key.algorithm, []).append(entry)
    found = []
    for claim in claims:
        if claim.better in entries and claim.worse in entries:
            better, worse = _pair(entries[claim.better], entries[claim.worse])
            games = [game for game in better.scores if game in worse.scores]
            if games:
                x, y = (
                    statistics.arrays({game: entry.scores[game] for game in games})
                    for entry in (better, worse)
                )
                ahead = int(sum(better.mean(game) > worse.mean(game) for game in games))
                improvement = statistics.improvement(x, y)
                found.append(JudgedClaim(claim, better, worse, improvement, ahead))
    return found


def _pair(better: list[Entry], worse: list[Entry]) -> tuple[Entry, Entry]:
    """The longest trained of each; two pre-trained agents are compared at equal steps if possible."""
    others = {entry.key.num_steps: entry for entry in worse}
    equal = [(e, others[e.key.num_steps]) for e in better if e.key.num_steps in others]
    longest = better[-1], worse[-1]
    return equal[-1] if equal and _are_pretrained(*(e.key for e in longest)) else longest


def _are_pretrained(*keys: Key) -> bool:
    return all(key.section == BOTTOM for key in keys)


def tables(suite: Suite) -> list[Table]:
    """The paper's claims and ours beyond it; a table without any judged claim is left out."""
    tables = []
    for name, title, claims in (
        ("claims", "the paper's claims", PAPER),
        ("beyond", "claims beyond the paper", BEYOND),
    ):
        table = Table(
            name=f"{suite.key}_{name}",
            title=f"{suite.title}: {title}",
            caption=_CAPTION,
            columns=("Claim", "Compared", "P", "Games ahead", "Verdict"),
            text_columns=frozenset({0, 1, 4}),
            rows=tuple(_row(judged) for judged in judge(suite, claims)),
        )
        tables += [table] if table.rows else []
    return tables


def _row(judged: JudgedClaim) -> TableRow:
    cells = (
        judged.claim.words,
        _compared(judged.better.key, judged.worse.key),
        with_interval(judged.found.probability, judged.found.interval),
        f"{judged.games_ahead} of {judged.found.num_games}",
        judged.found.verdict,
    )
    return TableRow(cells)


def _compared(better: Key, worse: Key) -> str:
    """Both names; with the steps of pre-training if they differ."""
    if not _are_pretrained(better, worse) or better.num_steps == worse.num_steps:
        return f"{better.name} > {worse.name}"
    first, second = (f"{k.name} after {short_count(k.num_steps)} steps" for k in (better, worse))
    return f"{first} > {second}"
