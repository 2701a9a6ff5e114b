"""The preferences prompt: which of two recorded segments is better, many times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visr.agents.base import BehaviourModel
from visr.errors import UserError
from visr.inference.regression import Comparison, Estimate
from visr.inference.steps import Floats, RewardedSteps
from visr.storage.records.task import TaskPrompt

METHOD = "Bradley-Terry"
SEGMENT = 20
"""Steps of a segment that is shown to a person."""
_PRIOR_DEVIATION = 3.0
"""Of each weight, with the differences of segments scaled to unit deviation."""
_NUM_SAMPLES = 100
_NUM_PROPOSED = 300
_MOST_ITERATIONS = 50


@dataclass(frozen=True, eq=False)
class Preferences:
    """Answers of the form "the first is better than the second", by summed features."""

    name: str
    better: Floats
    """[N, d], sums of phi over the preferred segments."""
    worse: Floats
    """[N, d], over the others."""

    def record(self) -> TaskPrompt:
        """The number of answers."""
        return TaskPrompt("preferences", self.name)

    def infer(self, model: BehaviourModel, data: Callable[[], RewardedSteps]) -> Comparison:
        """P(a > b) = sigmoid(w . (Phi_a - Phi_b)), with a Gaussian prior on w."""
        posterior = fit(self.better - self.worse)
        w = posterior.mean / np.linalg.norm(posterior.mean)
        samples = posterior.samples(_NUM_SAMPLES)
        cosine = float((samples @ w).mean())
        agreed = float(((self.better - self.worse) @ w > 0).mean())
        words = [
            f"w agrees with {agreed:.0%} of {len(self.better)} answers.",
            f"Other w that fit the answers as well have a mean cosine of {cosine:.2f} with it: "
            + (
                "more answers would change little." if cosine > 0.95 else "more answers would help."
            ),
        ]
        measures = {"agreeing answers": agreed, "cosine of samples": cosine}
        found = Estimate(METHOD, w, 0.0, math.inf, samples.std(axis=0), measures)
        count = len(self.better)
        return Comparison(
            {METHOD: found}, METHOD, count, count, count, words=words, counted="answers"
        )


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian over w: the mode of the posterior and its curvature (Laplace)."""

    mean: Floats
    """[d]"""
    covariance: Floats
    """[d, d]"""

    def samples(self, count: int, seed: int = 0) -> Floats:
        """Draws of w at unit length, [count, d]."""
        rng = np.random.default_rng(seed)
        drawn = rng.multivariate_normal(self.mean, self.covariance, size=count)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def fit(difference: Floats) -> Posterior:
    """Logistic regression without intercept by Newton's method: difference [N, d] of better - worse."""
    if not len(difference):
        raise UserError("There are no preferences; give at least one pair of segments.")
    scale = float(np.sqrt(np.square(difference).sum(axis=1).mean()))
    if scale < 1e-9:
        raise UserError(
            "The two segments of every pair have the same features; choose other pairs."
        )
    x, d = difference / scale, difference.shape[1]
    w, precision = np.zeros(d), np.eye(d) / _PRIOR_DEVIATION**2
    curvature = precision
    for _ in range(_MOST_ITERATIONS):
        chance = 1 / (1 + np.exp(np.clip(x @ w, -30, 30)))  # of the other answer
        gradient = x.T @ chance - precision @ w
        curvature = (x * (chance * (1 - chance))[:, None]).T @ x + precision
        step = np.linalg.solve(curvature, gradient)
        w = w + step / max(1.0, float(np.linalg.norm(step)))
        if np.abs(step).max() < 1e-8:
            break
    return Posterior(w, np.asarray(np.linalg.inv(curvature), dtype=np.float64))


def segment_sums(
    phi: NDArray[np.floating], segments: Sequence[tuple[int, int]]
) -> NDArray[np.float64]:
    """Sums of phi over segments [start, stop): [N, d]."""
    total = np.concatenate([np.zeros((1, phi.shape[1])), np.cumsum(phi, axis=0, dtype=np.float64)])
    edges = np.asarray(segments, dtype=np.intp).reshape(-1, 2)
    return total[edges[:, 1]] - total[edges[:, 0]]


def starts(episode: NDArray[np.intp], length: int = SEGMENT) -> NDArray[np.intp]:
    """Steps at which a segment of `length` steps of one episode starts."""
    return np.flatnonzero(episode[: len(episode) - length + 1] == episode[length - 1 :])


def next_pair(
    phi: NDArray[np.floating],
    candidates: NDArray[np.intp],
    difference: Floats,
    seed: int,
    length: int = SEGMENT,
) -> tuple[int, int]:
    """The starts of the two segments whose comparison tells most about w.

    Among random pairs, the one where samples of w disagree most: the entropy of the mean answer minus the
    mean entropy of the answers.
    """
    if len(candidates) < 2:
        raise UserError(
            f"No two segments of {length} steps were recorded; train with longer episodes."
        )
    rng = np.random.default_rng(seed)
    first, second = rng.choice(candidates, _NUM_PROPOSED), rng.choice(candidates, _NUM_PROPOSED)
    sums = [
        segment_sums(phi, np.stack([at, at + length], axis=1).tolist()) for at in (first, second)
    ]
    gaps = sums[0] - sums[1]
    if not len(difference):  # nothing is known of w: the pair that differs most
        best = int(np.square(gaps).sum(axis=1).argmax())
        return int(first[best]), int(second[best])
    posterior, scale = fit(difference), float(np.sqrt(np.square(difference).sum(axis=1).mean()))
    drawn = np.random.default_rng(seed).multivariate_normal(
        posterior.mean, posterior.covariance, size=_NUM_SAMPLES
    )
    chance = 1 / (1 + np.exp(-np.clip(gaps / scale @ drawn.T, -30, 30)))
    best = int((_entropy(chance.mean(axis=1)) - _entropy(chance).mean(axis=1)).argmax())
    return int(first[best]), int(second[best])


def _entropy(chance: Floats) -> Floats:
    p = np.clip(chance, 1e-12, 1 - 1e-12)
    return -p * np.log(p) - (1 - p) * np.log(1 - p)
