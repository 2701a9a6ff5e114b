"""Families of games, each with its own zero and its own hundred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from visr import atari_games as games
from visr.atari_games import Subset
from visr.config import MINATAR
from visr.paper.suite import rows as lines
from visr.paper.suite import statistics
from visr.paper.suite.read import Run
from visr.paper.suite.rows import Entry, Key
from visr.paper.suite.statistics import Aggregate
from visr.report import style

_REFERENCES = ("NSQ @10M", "NSQ @1M")  # the first that every game has is a suite's 100


@dataclass(frozen=True)
class Part:
    """Games that are summed up together."""

    key: str
    title: str
    games: tuple[str, ...]
    """Ids."""
    note: str = ""


@dataclass(frozen=True, eq=False)
class Suite:
    """Games whose scores can be compared after normalising, and what was played of them."""

    key: str
    title: str
    runs: tuple[Run, ...]
    entries: tuple[Entry, ...]
    parts: tuple[Part, ...]
    scale: dict[str, tuple[float, float]]
    """What a random player and the reference score, by game; empty where there is no reference."""
    unit: str
    """What a normalised score is called, such as `human-normalised score, %`; of raw scores, `raw score`."""
    scale_words: str
    """What 0 and 100 are."""

    @property
    def is_atari(self) -> bool:
        """Whether the paper's tables can stand beside it."""
        return self.key == "atari"

    @property
    def is_normalised(self) -> bool:
        """Whether scores of different games share a scale."""
        return bool(self.scale)

    @property
    def games(self) -> tuple[str, ...]:
        """Ids of all that any entry played, by name."""
        played = {game for entry in self.entries for game in entry.scores}
        played |= {run.env for run in self.runs if run.online}
        return tuple(sorted(played))

    def normalised(self, score: float, game: str) -> float:
        """100 (score - random) / (reference - random); the raw score where there is no reference."""
        if game not in self.scale:
            return score
        random, reference = self.scale[game]
        return 100.0 * ((score - random) / (reference - random))

    def scores(self, entry: Entry, part: Part) -> dict[str, dict[int, float]]:
        """Normalised scores of those games of the part that were played."""
        return {
            game: {seed: self.normalised(score, game) for seed, score in entry.scores[game].items()}
            for game in part.games
            if game in entry.scores
        }

    @cached_property
    def aggregates(self) -> dict[tuple[Key, str], Aggregate]:
        """By entry and part; none where nothing was played, or where games share no scale."""
        played = {
            (entry.key, part.key): self.scores(entry, part)
            for entry in self.entries
            for part in (self.parts if self.is_normalised else ())
        }
        return {which: statistics.aggregate(scores) for which, scores in played.items() if scores}


def name_of(game: str) -> str:
    """A game's id without its family and version."""
    return style.plain(game.split("/")[-1].rsplit("-v", 1)[0])


def sort(runs: Sequence[Run], entries: Sequence[Entry]) -> list[Suite]:
    """The suites that anything was played of: Atari, MinAtar, others."""
    kinds: list[tuple[str, str, Callable[[str], bool]]] = [
        ("atari", "Atari", lambda env: games.by_id(env) is not None),
        ("minatar", "MinAtar", lambda env: env.startswith(MINATAR)),
        (
            "other", "Other environments",
            lambda env: games.by_id(env) is None and not env.startswith(MINATAR),
        ),
    ]  # fmt: skip
    found = []
    for key, title, belongs in kinds:
        own_runs = tuple(run for run in runs if belongs(run.env))
        own = [Entry(e.key, {g: s for g, s in e.scores.items() if belongs(g)}) for e in entries]
        own = [entry for entry in own if entry.scores]
        if own_runs:
            make = _atari if key == "atari" else _measured
            found.append(make(key, title, own_runs, tuple(own)))
    return found


def _atari(key: str, title: str, runs: tuple[Run, ...], entries: tuple[Entry, ...]) -> Suite:
    return Suite(
        key, title, runs, entries,
        parts=tuple(_part(subset) for subset in games.subsets()),
        scale={game.id: (game.random, game.human) for game in games.all_games()},
        unit="human-normalised score, %",
        scale_words="0 is the published score of a random player, 100 that of a human.",
    )  # fmt: skip


def _part(subset: Subset) -> Part:
    return Part(subset.key, subset.title, tuple(game.id for game in subset.games), subset.note)


def _measured(key: str, title: str, runs: tuple[Run, ...], entries: tuple[Entry, ...]) -> Suite:
    """Games without published references: what was measured in these runs takes their place."""
    played = tuple(sorted({game for entry in entries for game in entry.scores}))
    random = lines.random_scores(runs)
    for name in _REFERENCES:
        found = [entry for entry in entries if entry.key.name == name]
        if found and all(_can_scale(found[0], random, game) for game in played):
            scale = {game: (random[game], found[0].mean(game)) for game in played}
            words = f"0 is what a random policy scored in these runs, 100 what {name} did."
            unit = f"score, % of {name}"
            break
    else:
        scale, unit = {}, "raw score"
        words = "Scores are raw: no reference (NSQ @10M or @1M, on every game) is among these runs."
    part = Part("all", f"{len(played)} game{'' if len(played) == 1 else 's'}", played)
    return Suite(key, title, runs, entries, (part,), scale, unit, words)


def _can_scale(entry: Entry, random: dict[str, float], game: str) -> bool:
    return game in random and game in entry.scores and entry.mean(game) > random[game]
