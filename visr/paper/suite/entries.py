"""From runs to entries of tables (which agent, how many rewarded steps, which scores), and to suites:
games whose scores share a normalisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from visr import atari_games
from visr.atari_games import GameSet
from visr.config import MINATAR
from visr.paper.suite import published, statistics
from visr.paper.suite.read import RunSummary, short_count
from visr.paper.suite.statistics import Aggregate
from visr.report import style
from visr.storage.records.two_phase import Condition

_EPISODES = 50  # with rewards, in the paper
SEARCH = "env-search"
REGRESSION = "env-regression"
TOP, MIDDLE, BOTTOM = "top_unsupervised_only", "mid_data_limited_rl", "bottom_rl_with_pretraining"
"""The three sections of the paper's table, as `data/paper_table.csv` names them."""
RANDOM = "Random"
FROM_SCRATCH = "Fine-tuning's learner from scratch"
WITHOUT_FREE = "Relabelling's learner from scratch"
"""The same settings and updates as relabelling, on rewarded steps alone."""
_NEW = {"from scratch": FROM_SCRATCH, "without free steps": WITHOUT_FREE}
_TITLES = {"atari": "Atari", "minatar": "MinAtar", "other": "Other environments"}
_REFERENCES = (
    "NSQ @10M",
    "NSQ @1M",
)  # the longest-trained one with scores in all games counts as 100


@dataclass(frozen=True)
class Key:
    """What identifies an entry: the same for all its games and seeds."""

    algorithm: str
    """As in the paper."""
    interaction: str
    """Rewarded steps allowed: 0, 100k, 10M."""
    section: str
    num_steps: int
    """Of training: without rewards, or with them for data-limited reinforcement learning."""

    @property
    def name(self) -> str:
        """As in the first column of the paper's table."""
        return f"{self.algorithm} @{self.interaction}"

    @property
    def is_search(self) -> bool:
        """Whether random search chose the task; regression is an entry of its own."""
        return " by search" in self.algorithm


@dataclass(frozen=True, eq=False)
class Entry:
    """Mean raw scores of whole episodes, by game and seed."""

    key: Key
    scores: dict[str, dict[int, float]] = field(default_factory=dict)

    @property
    def seeds(self) -> set[int]:
        """Seeds that played any game."""
        return {seed for of in self.scores.values() for seed in of}

    @property
    def seeds_per_game(self) -> tuple[int, int]:
        """The smallest and the largest number of seeds that a game was played with."""
        counts = [len(of) for of in self.scores.values()]
        return min(counts), max(counts)

    def add(self, game: str, seed: int, score: float) -> None:
        """Add a score, unless there is one of the same game and seed."""
        self.scores.setdefault(game, {}).setdefault(seed, score)

    def mean(self, game: str) -> float:
        """Mean over seeds."""
        return float(np.mean(list(self.scores[game].values())))


def too_short(runs: Sequence[RunSummary]) -> dict[str, str]:
    """By name, why a run is not used: it had less than 1 % of the steps of its agent's longest run."""
    longest: dict[str, int] = {}
    for run in runs:
        longest[run.label] = max(longest.get(run.label, 0), run.num_steps)
    return {
        run.name: f"was trained for {run.num_steps:,} steps, less than 1 % of the {longest[run.label]:,} "
        f"steps of the longest run of {run.label}."
        for run in runs
        if run.has_score and 100 * run.num_steps < longest[run.label]
    }


def collect(runs: Sequence[RunSummary]) -> tuple[list[Entry], dict[str, str]]:
    """All entries in the order of the table; and by name, why a run that repeats another is not used."""
    entries: dict[Key, Entry] = {}
    origin: dict[tuple[Key, str, int], str] = {}
    repeated: dict[str, str] = {}
    for run in runs:
        for key, condition in _conditions(run):
            earlier = origin.setdefault((key, run.env, run.seed), run.name)
            if earlier == run.name:
                entries.setdefault(key, Entry(key)).add(run.env, run.seed, condition.mean)
            else:
                words = f"has the same agent, steps, game and seed as {earlier}, which is used."
                repeated[run.name] = words
    if not any(key.algorithm == RANDOM for key in entries):
        key = Key(RANDOM, "0", TOP, 0)
        for run, score in _random_scores(run for run in runs if run.has_score):
            entries.setdefault(key, Entry(key)).add(run.env, run.seed, score)
    return [entries[key] for key in sorted(entries, key=_order)], repeated


def _conditions(run: RunSummary) -> list[tuple[Key, Condition]]:
    """The scores of a run that tables show; the first is the agent's own."""
    if run.phase_two is None or not run.has_score:
        return []
    (first, *others), steps = run.phase_two.conditions, run.num_steps
    if not run.adapts:
        name, _, interaction = run.label.rpartition(" @")
        return [(Key(name, interaction, TOP if interaction == "0" else MIDDLE, steps), first)]
    budget = _budget(run)
    found = [(Key(run.label, budget, BOTTOM, steps), first)]
    for condition in others:
        if condition.name == SEARCH and first.name == REGRESSION:
            found.append((Key(f"{run.label} by search", budget, BOTTOM, steps), condition))
        elif condition.is_unadapted and (name := _unadapted_name(run.label)):
            found.append((Key(name, "0", TOP, steps), condition))
    for condition in run.adapted:
        name = _NEW.get(condition.name, f"{run.label}, {condition.name}")
        found.append((Key(name, budget, BOTTOM, steps + condition.num_free_steps), condition))
    return found


def _unadapted_name(label: str) -> str | None:
    """The name of an agent without a task: the paper has GPI VISR, which it then calls VISR, and DIAYN."""
    return "VISR" if label == "GPI VISR" else label if label.startswith("Q-DIAYN") else None


def _budget(run: RunSummary) -> str:
    """Rewarded steps, rounded; "100k" also if the paper's limit of 50 episodes ended them."""
    phase = run.phase_two
    assert phase is not None
    is_papers = phase.num_rewarded_episodes == _EPISODES
    if phase.num_rewarded_steps <= 110_000 and (is_papers or phase.num_rewarded_steps >= 90_000):
        return "100k"
    # to half a leading digit (20k, 25k, 30k), because seeds differ by a few steps
    unit = 10 ** math.floor(math.log10(max(phase.num_rewarded_steps, 1)))
    return short_count(round(2 * phase.num_rewarded_steps / unit) / 2 * unit)


def _order(key: Key) -> tuple[object, ...]:
    """The paper's order; in each section, agents that the paper does not have come last."""
    names = [row.name for row in published.paper_table()]
    place = names.index(key.name) if key.name in names else len(names)
    section = (TOP, MIDDLE, BOTTOM).index(key.section)
    return section, place, key.algorithm, key.num_steps, key.interaction


def _random_scores(runs: Iterable[RunSummary]) -> Iterator[tuple[RunSummary, float]]:
    """The score of the random policy that each run was compared with."""
    for run in runs:
        if run.phase_two is not None and (played := run.phase_two.untrained) is not None:
            yield run, played.mean


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


def sort(
    runs: Sequence[RunSummary], entries: Sequence[Entry], left_out: Sequence[RunSummary] = ()
) -> list[Suite]:
    """The suites with at least one run: Atari, MinAtar, others.

    Random policies that were played beside runs that are `left_out` count for the scale, too.
    """
    found = []
    for key, title in _TITLES.items():
        own_runs = tuple(run for run in runs if _kind(run.env) == key)
        played = ({g: s for g, s in e.scores.items() if _kind(g) == key} for e in entries)
        own = [Entry(e.key, s) for e, s in zip(entries, played, strict=True) if s]
        if own_runs:
            played_at_random: dict[str, list[float]] = {}
            for run, score in _random_scores(r for r in (*runs, *left_out) if _kind(r.env) == key):
                played_at_random.setdefault(run.env, []).append(score)
            random = {game: float(np.mean(scores)) for game, scores in played_at_random.items()}
            found.append(_suite(key, title, own_runs, tuple(own), random))
    return found


def _kind(env: str) -> str:
    if atari_games.by_id(env) is not None:
        return "atari"
    return "minatar" if env.startswith(MINATAR) else "other"


def _suite(
    key: str,
    title: str,
    runs: tuple[RunSummary, ...],
    entries: tuple[Entry, ...],
    random: dict[str, float],
) -> Suite:
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
    for entry in sorted(entries, key=lambda entry: entry.key.num_steps, reverse=True):
        if entry.key.name in _REFERENCES and all(
            game in random and game in entry.scores and entry.mean(game) > random[game]
            for game in played
        ):
            scale = {game: (random[game], entry.mean(game)) for game in played}
            name = entry.key.name
            words = f"0 is the score of a random policy in these runs, 100 that of {name}."
            unit = f"score, % of {name}"
            return Suite(key, title, runs, entries, games, scale, unit, words)
    words = "Scores are raw: no reference (NSQ @10M or @1M, on every game) is among these runs."
    return Suite(key, title, runs, entries, games, {}, "raw score", words)
