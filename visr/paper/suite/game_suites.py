"""Suites of games: Atari, MinAtar and others, each with its own normalisation of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from visr import atari_games
from visr.atari_games import GameSet
from visr.config import MINATAR
from visr.paper.suite import rows, statistics
from visr.paper.suite.read import RunSummary
from visr.paper.suite.rows import Entry, Key
from visr.paper.suite.statistics import Aggregate
from visr.report import style

_REFERENCES = ("NSQ @10M", "NSQ @1M")  # the first that played every game is 100


@dataclass(frozen=True, eq=False)
class Suite:
    """Games whose normalised scores are comparable, with the runs and entries that played them."""

    key: str
    title: str
    runs: tuple[RunSummary, ...]
    entries: tuple[Entry, ...]
    game_sets: tuple[GameSet, ...]
    scale: dict[str, tuple[float, float]]
    """Scores of a random player and of the reference, by game; empty without a reference."""
    unit: str
    """Name of a normalised score, such as `human-normalised score, %`; without a reference `raw score`."""
    scale_words: str
    """What 0 and 100 are."""

    @property
    def is_atari(self) -> bool:
        """Whether the paper's tables have the same games."""
        return self.key == "atari"

    @property
    def is_normalised(self) -> bool:
        """Whether scores of different games share a scale."""
        return bool(self.scale)

    @property
    def games(self) -> tuple[str, ...]:
        """Ids of all games with a score or a curve."""
        played = {game for entry in self.entries for game in entry.scores}
        played |= {run.env for run in self.runs if run.online}
        return tuple(sorted(played))

    @property
    def largest_set(self) -> GameSet:
        """The set with most games, which figures show."""
        return max(self.game_sets, key=lambda games: len(games.games))

    def normalised(self, score: float, game: str) -> float:
        """100 (score - random) / (reference - random); the raw score without a reference."""
        if game not in self.scale:
            return score
        random, reference = self.scale[game]
        return 100.0 * ((score - random) / (reference - random))

    def scores(self, entry: Entry, of: GameSet) -> dict[str, dict[int, float]]:
        """Normalised scores by game and seed, for the games of a set that were played."""
        return {
            game: {seed: self.normalised(score, game) for seed, score in entry.scores[game].items()}
            for game in of.games
            if game in entry.scores
        }

    @cached_property
    def aggregates(self) -> dict[tuple[Key, str], Aggregate]:
        """By entry and game set, where any game was played; empty if scores are not normalised."""
        played = {
            (entry.key, games.key): self.scores(entry, games)
            for entry in self.entries
            for games in (self.game_sets if self.is_normalised else ())
        }
        return {which: statistics.aggregate(scores) for which, scores in played.items() if scores}


def name_of(game: str) -> str:
    """A game's id without its family and version."""
    return style.plain(game.split("/")[-1].rsplit("-v", 1)[0])


def sort(runs: Sequence[RunSummary], entries: Sequence[Entry]) -> list[Suite]:
    """The suites with at least one run: Atari, MinAtar, others."""

    def is_atari(env: str) -> bool:
        return atari_games.by_id(env) is not None

    def is_minatar(env: str) -> bool:
        return env.startswith(MINATAR)

    kinds: list[tuple[str, str, Callable[[str], bool]]] = [
        ("atari", "Atari", is_atari),
        ("minatar", "MinAtar", is_minatar),
        ("other", "Other environments", lambda env: not is_atari(env) and not is_minatar(env)),
    ]
    found = []
    for key, title, belongs in kinds:
        own_runs = tuple(run for run in runs if belongs(run.env))
        own = [Entry(e.key, {g: s for g, s in e.scores.items() if belongs(g)}) for e in entries]
        own = [entry for entry in own if entry.scores]
        if own_runs:
            make = _atari if key == "atari" else _measured
            found.append(make(key, title, own_runs, tuple(own)))
    return found


def _atari(key: str, title: str, runs: tuple[RunSummary, ...], entries: tuple[Entry, ...]) -> Suite:
    return Suite(
        key, title, runs, entries, atari_games.game_sets(),
        scale={game.id: (game.random, game.human) for game in atari_games.all_games()},
        unit="human-normalised score, %",
        scale_words="0 is the published score of a random player, 100 that of a human.",
    )  # fmt: skip


def _measured(
    key: str, title: str, runs: tuple[RunSummary, ...], entries: tuple[Entry, ...]
) -> Suite:
    """Games without published scores: 0 and 100 are measured in these runs."""
    played = tuple(sorted({game for entry in entries for game in entry.scores}))
    random = rows.random_scores(runs)
    for name in _REFERENCES:
        found = [entry for entry in entries if entry.key.name == name]
        if found and all(_can_scale(found[0], random, game) for game in played):
            scale = {game: (random[game], found[0].mean(game)) for game in played}
            words = f"0 is the score of a random policy in these runs, 100 that of {name}."
            unit = f"score, % of {name}"
            break
    else:
        scale, unit = {}, "raw score"
        words = "Scores are raw: no reference (NSQ @10M or @1M, on every game) is among these runs."
    games = GameSet("all", f"{len(played)} game{'' if len(played) == 1 else 's'}", played)
    return Suite(key, title, runs, entries, (games,), scale, unit, words)


def _can_scale(entry: Entry, random: dict[str, float], game: str) -> bool:
    return game in random and game in entry.scores and entry.mean(game) > random[game]
