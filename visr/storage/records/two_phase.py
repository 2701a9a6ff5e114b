"""phase_two.json and adapted.json: raw scores of whole episodes after the rewarded phase."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

import numpy as np

from visr.config import Bound
from visr.storage import schema
from visr.storage.files import read_json

UNTRAINED = "random policy"
UNADAPTED = "@0 (a new task every 40 steps)"
AS_TRAINED = "as trained"
"""The condition of agents that pursue one task only."""
LARGEST_SCORE = 1e12
"""Sums of products of larger ones overflow."""
Score = Annotated[float, Bound(-LARGEST_SCORE, LARGEST_SCORE)]


@dataclass(frozen=True)
class Condition:
    """One way to act, and the raw scores of its episodes."""

    name: str
    mean: Score
    standard_error: Annotated[float, Bound(0, LARGEST_SCORE)] | None
    """Of the mean; None after a single episode."""
    human_normalised: Score | None
    """100 (mean - random) / (human - random) with the published scores, for Atari games."""
    at_75: bool | None
    at_100: bool | None
    r_squared: Score | None
    """How well phi . w explains the rewards, if a task was inferred."""
    scores: Annotated[tuple[Score, ...], Bound(1)]
    num_steps: Annotated[tuple[schema.Count, ...], Bound(1)]
    num_cut: schema.Count = field(default=0, metadata=schema.ONLY_IF_CHANGED)
    """Episodes that were cut because the environment has no time limit."""
    draws: Annotated[tuple[Score, ...], Bound(0, 1000)] = field(
        default=(), metadata=schema.ONLY_IF_CHANGED
    )
    """The mean score of each draw of the rewarded phase, if there were several."""

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.num_steps):
            raise ValueError("scores and num_steps do not have the same length")

    @classmethod
    def from_scores(
        cls,
        name: str,
        scores: Sequence[float],
        num_steps: Sequence[int],
        human_normalised: float | None,
        r_squared: float | None,
        num_cut: int = 0,
    ) -> Condition:
        """The condition of these episodes."""
        count, normalised = len(scores), human_normalised
        return cls(
            name=name,
            mean=float(np.mean(scores)),
            standard_error=float(np.std(scores, ddof=1) / math.sqrt(count)) if count > 1 else None,
            human_normalised=normalised,
            at_75=None if normalised is None else normalised >= 75,
            at_100=None if normalised is None else normalised >= 100,
            r_squared=r_squared,
            scores=tuple(scores),
            num_steps=tuple(num_steps),
            num_cut=num_cut,
        )

    @classmethod
    def of_draws(cls, found: Sequence[Condition]) -> Condition:
        """One condition over several draws: mean and standard error are over their means."""
        first, means = found[0], [condition.mean for condition in found]
        if len(found) == 1:
            return first
        normalised = [c.human_normalised for c in found if c.human_normalised is not None]
        explained = [c.r_squared for c in found if c.r_squared is not None]
        together = cls.from_scores(
            first.name,
            [score for condition in found for score in condition.scores],
            [steps for condition in found for steps in condition.num_steps],
            float(np.mean(normalised)) if normalised else None,
            float(np.mean(explained)) if explained else None,
            sum(condition.num_cut for condition in found),
        )
        error = float(np.std(means, ddof=1) / math.sqrt(len(means)))
        return dataclasses.replace(together, standard_error=error, draws=tuple(means))

    @property
    def is_inferred(self) -> bool:
        """Whether a task was inferred for it; the others are there to compare with."""
        return self.name != UNTRAINED and not self.is_unadapted

    @property
    def is_unadapted(self) -> bool:
        """Whether it acted with random tasks, without any inference."""
        return self.name.startswith(UNADAPTED[:2])


def cut_in_words(num_cut: int, num_steps: Iterable[int]) -> str:
    """That episodes were cut, and after how many steps; empty if none was."""
    if not num_cut:
        return ""
    episodes = "1 episode was" if num_cut == 1 else f"{num_cut} episodes were"
    return (
        f"{episodes} cut at {max(num_steps):,} steps, because the environment has no time limit; "
        "max_episode_steps of its registration sets one."
    )


@dataclass(frozen=True)
class AdaptedCondition(Condition):
    """A condition of adapted.json."""

    num_rewarded_steps: schema.Count = 0
    num_free_steps: schema.Count = 0
    """Reward-free steps beyond the run's own that it learnt from."""


_NUM_CONDITIONS = Bound(1, 24)


@dataclass(frozen=True, kw_only=True)
class TwoPhase:
    """phase_two.json: the paper's rewarded phase."""

    FORMAT: ClassVar[int] = 1

    env: str
    num_steps: schema.Count
    """Of pre-training."""
    num_rewarded_steps: schema.Count
    num_rewarded_episodes: schema.Count
    rounds: Annotated[int, Bound(1)] = 1
    """Always 1 now; older versions could infer in several rounds."""
    num_seen: schema.Count
    """Steps with a reward other than 0."""
    num_trials: schema.Count
    """Episodes of each condition, in each draw."""
    epsilon: Score
    clip_rewards: bool
    random_score: Score | None
    human_score: Score | None
    conditions: Annotated[tuple[Condition, ...], _NUM_CONDITIONS]

    @property
    def untrained(self) -> Condition | None:
        """The random policy, if it was played."""
        return next((c for c in self.conditions if c.name == UNTRAINED), None)

    @classmethod
    def load(cls, path: Path, env: str) -> TwoPhase:
        """Read phase_two.json of a run in `env`."""
        complaint = f"{path} is not a rewarded phase of this run"
        return _load(cls, path, env, complaint, "or make another with `visr evaluate`")


@dataclass(frozen=True)
class Adapted:
    """adapted.json: other ways to use the rewarded steps than the paper's."""

    FORMAT: ClassVar[int] = 1

    env: str
    num_steps: schema.Count
    """Of pre-training."""
    conditions: Annotated[tuple[AdaptedCondition, ...], _NUM_CONDITIONS]

    @classmethod
    def load(cls, path: Path, env: str) -> Adapted:
        """Read adapted.json of a run in `env`."""
        complaint = f"{path} is not a valid adapted.json of this run"
        return _load(
            cls, path, env, complaint, "and the same `visr reproduce beyond` makes another"
        )


Read = TypeVar("Read", TwoPhase, Adapted)


def _load(cls: type[Read], path: Path, env: str, complaint: str, remedy: str) -> Read:
    content = read_json(path)
    with schema.refusing(complaint, f"move it away, {remedy}"):
        record = schema.read(cls, content)
        if record.env != env:
            raise ValueError(f"its environment is {record.env!r} and the run's is {env!r}")
    return record
