"""NAME.evaluation.json outside the grid: returns of whole episodes under the asked reward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from visr.config import Bound
from visr.storage import schema
from visr.storage.files import read_json
from visr.storage.summaries import Summary

_LARGEST = 1e12
Return = Annotated[float, Bound(-_LARGEST, _LARGEST)]


@dataclass(frozen=True)
class Returns:
    """Undiscounted returns of whole episodes."""

    mean: Return
    standard_error: Annotated[float, Bound(0, _LARGEST)] | None
    """None after a single episode."""
    returns: Annotated[tuple[Return, ...], Bound(1)]

    @classmethod
    def of(cls, returns: Sequence[float]) -> Returns:
        """The mean of these returns and its error."""
        count = len(returns)
        error = float(np.std(returns, ddof=1) / math.sqrt(count)) if count > 1 else None
        return cls(float(np.mean(returns)), error, tuple(map(float, returns)))

    def interval(self, num_resamples: int = 2_000) -> list[float]:
        """The middle 95 % of the mean over resampled episodes: [low, high]."""
        random, returns = np.random.default_rng(0), np.asarray(self.returns)
        draws = random.integers(len(returns), size=(num_resamples, len(returns)))
        return np.quantile(returns[draws].mean(axis=1), [0.025, 0.975]).tolist()

    def __str__(self) -> str:
        """Mean and standard error."""
        error = "" if self.standard_error is None else f" ± {self.standard_error:,.2f}"
        return f"{self.mean:,.2f}{error}"


@dataclass(frozen=True)
class PolicyReturns:
    """One policy's returns under the asked reward and under the environment's own, in the same episodes."""

    policy: str
    asked: Returns
    environment: Returns
    num_steps: Annotated[tuple[schema.Count, ...], Bound(1)]
    num_cut: schema.Count = field(default=0, metadata=schema.ONLY_IF_CHANGED)
    """Episodes that were cut because the environment has no time limit."""


@dataclass(frozen=True, repr=False)
class EpisodeEvaluation(Summary):
    """A task's returns in whole episodes, beside the random policy and the best constant action."""

    task: str
    env: str
    reward: str
    """What the asked return sums, in words."""
    reward_kind: str
    policies: Annotated[tuple[PolicyReturns, ...], Bound(1, 8)]
    """The task's own first."""
    human_normalised: float | None = None
    """Of the environment's own return, for Atari games."""

    @property
    def asked(self) -> Returns:
        """The task's returns under the asked reward."""
        return self.policies[0].asked

    @property
    def environment(self) -> Returns:
        """The task's returns under the environment's own reward."""
        return self.policies[0].environment

    def summary(self) -> dict[str, str]:
        """The asked return of every policy, and the environment's own of the task's."""
        found = {"task": self.task, "return of": self.reward}
        found |= {policy.policy: str(policy.asked) for policy in self.policies}
        return found | {"environment's own return": str(self.environment)}

    def to_dict(self) -> dict[str, Any]:
        """The content of the file; `mean`, `scores` and others are of the environment's own reward."""
        own = self.environment
        earlier = {"mean": own.mean, "standard_error": own.standard_error, "scores": own.returns}
        content = schema.to_dict(self)
        return {
            **content,
            **{key: list(v) if isinstance(v, tuple) else v for key, v in earlier.items()},
            "num_steps": list(self.policies[0].num_steps),
            "asked": content["policies"][0]["asked"],
        }

    @classmethod
    def load(cls, path: Path) -> EpisodeEvaluation | None:
        """Read the file; None if an older version wrote it without the asked return."""
        content = read_json(path)
        if isinstance(content, dict) and "policies" not in content:
            return None
        with schema.refusing(f"{path} is not an evaluation", "`visr evaluate` makes another"):
            return schema.read(cls, content)
