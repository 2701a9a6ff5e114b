"""From runs to entries of a table: which agent, with how many rewarded steps, with which scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from visr.config import ATARI
from visr.paper.suite import published
from visr.paper.suite.read import RunSummary, short_count
from visr.storage.records.two_phase import Condition

_EPISODES = 50  # with rewards, in the paper
SEARCH = "env-search"
REGRESSION = "env-regression"
TOP, MIDDLE, BOTTOM = "top_unsupervised_only", "mid_data_limited_rl", "bottom_rl_with_pretraining"
"""The three sections of the paper's table, as `data/paper_table.csv` names them."""
RANDOM = "Random"
FROM_SCRATCH = "Fine-tuning's learner from scratch"


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

    def add(self, run: RunSummary, score: float) -> None:
        """Add the score of a run's game and seed, unless there is one."""
        self.scores.setdefault(run.env, {}).setdefault(run.seed, score)

    def mean(self, game: str) -> float:
        """Mean over seeds."""
        return float(np.mean(list(self.scores[game].values())))


def collect(runs: Sequence[RunSummary]) -> tuple[list[Entry], dict[str, str]]:
    """All entries in the order of the table; and by name, why a run that repeats another is not used."""
    entries: dict[Key, Entry] = {}
    origin: dict[tuple[Key, str, int], str] = {}
    repeated: dict[str, str] = {}
    for run in runs:
        for key, condition in _conditions(run):
            earlier = origin.setdefault((key, run.env, run.seed), run.name)
            if earlier == run.name:
                entries.setdefault(key, Entry(key)).add(run, condition.mean)
            else:
                words = f"has the same agent, steps, game and seed as {earlier}, which is used."
                repeated[run.name] = words
    if not any(key.algorithm == RANDOM for key in entries):
        key = Key(RANDOM, "0", TOP, 0)
        for run, score in _random_scores(run for run in runs if run.has_score):
            entries.setdefault(key, Entry(key)).add(run, score)
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
        is_new = condition.name == "from scratch"
        name = FROM_SCRATCH if is_new else f"{run.label}, {condition.name}"
        found.append((Key(name, budget, BOTTOM, steps + condition.num_free_steps), condition))
    return found


def _unadapted_name(label: str) -> str | None:
    """The name of an agent without a task: the paper has GPI VISR, which it then calls VISR, and DIAYN."""
    return "VISR" if label == "GPI VISR" else label if label.startswith("Q-DIAYN") else None


def _budget(run: RunSummary) -> str:
    """Rewarded steps, rounded; "100k" also if the paper's limit of 50 episodes on Atari ended them."""
    phase = run.phase_two
    assert phase is not None
    is_papers = run.env.startswith(ATARI) and phase.num_rewarded_episodes >= _EPISODES
    if phase.num_rewarded_steps <= 110_000 and (is_papers or phase.num_rewarded_steps >= 90_000):
        return "100k"
    return short_count(_about(phase.num_rewarded_steps))


def _about(count: int) -> float:
    """Round to half a leading digit (20k, 25k, 30k): seeds differ by a few steps."""
    unit = 10 ** math.floor(math.log10(max(count, 1)))
    return round(2 * count / unit) / 2 * unit


def _order(key: Key) -> tuple[object, ...]:
    """The paper's order; in each section, agents that the paper does not have come last."""
    names = [row.name for row in published.paper_table()]
    place = names.index(key.name) if key.name in names else len(names)
    section = (TOP, MIDDLE, BOTTOM).index(key.section)
    return section, place, key.algorithm, key.num_steps, key.interaction


def random_scores(runs: Iterable[RunSummary]) -> dict[str, float]:
    """The mean score of random policies over all runs, by game."""
    found: dict[str, list[float]] = {}
    for run, score in _random_scores(runs):
        found.setdefault(run.env, []).append(score)
    return {game: float(np.mean(scores)) for game, scores in found.items()}


def _random_scores(runs: Iterable[RunSummary]) -> Iterator[tuple[RunSummary, float]]:
    """The score of the random policy that each run was compared with."""
    for run in runs:
        if run.phase_two is not None and (played := run.phase_two.untrained) is not None:
            yield run, played.mean
