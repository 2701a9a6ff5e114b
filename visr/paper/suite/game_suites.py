"""Suites of games: Atari, MinAtar and others, each with its own normalisation of scores."""

from __future__ import annotations

from collections.abc import Sequence
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

_TITLES = {"atari": "Atari", "minatar": "MinAtar", "other": "Other environments"}
_REFERENCES = ("NSQ @10M", "NSQ @1M")  # the longest that played every game is 100


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

    def mean(self, entry: Entry, game: str) -> float:
        """The normalised mean over seeds."""
        return self.normalised(entry.mean(game), game)

    def longest(self, name: str) -> Entry | None:
        """The entry of that name with the longest training."""
        return next((entry for entry in reversed(self.entries) if entry.key.name == name), None)

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
    found = []
    for key, title in _TITLES.items():
        own_runs = tuple(run for run in runs if _kind(run.env) == key)
        own = (
            Entry(e.key, {g: s for g, s in e.scores.items() if _kind(g) == key}) for e in entries
        )
        if own_runs:
            found.append(
                _suite(key, title, own_runs, tuple(entry for entry in own if entry.scores))
            )
    return found


def _kind(env: str) -> str:
    if atari_games.by_id(env) is not None:
        return "atari"
    return "minatar" if env.startswith(MINATAR) else "other"


def _suite(key: str, title: str, runs: tuple[RunSummary, ...], entries: tuple[Entry, ...]) -> Suite:
    """On Atari 0 and 100 are published scores; elsewhere they are measured in these runs."""
    if key == "atari":
        return Suite(
            key, title, runs, entries, atari_games.game_sets(),
            scale={game.id: (game.random, game.human) for game in atari_games.all_games()},
            unit="human-normalised score, %",
            scale_words="0 is the published score of a random player, 100 that of a human.",
        )  # fmt: skip
    played = tuple(sorted({game for entry in entries for game in entry.scores}))
    games = (GameSet("all", f"{len(played)} game{'' if len(played) == 1 else 's'}", played),)
    random = rows.random_scores(runs)
    for entry in sorted(entries, key=lambda entry: entry.key.num_steps, reverse=True):
        if entry.key.name in _REFERENCES and all(
            game in random and game in entry.scores and entry.mean(game) > random[game]
            for game in played
        ):
            scale = {game: (random[game], entry.mean(game)) for game in played}
            words = (
                f"0 is the score of a random policy in these runs, 100 that of {entry.key.name}."
            )
            unit = f"score, % of {entry.key.name}"
            return Suite(key, title, runs, entries, games, scale, unit, words)
    words = "Scores are raw: no reference (NSQ @10M or @1M, on every game) is among these runs."
    return Suite(key, title, runs, entries, games, {}, "raw score", words)
