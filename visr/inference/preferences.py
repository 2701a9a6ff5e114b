"""The preferences prompt: which of two recorded segments is better, many times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visr.agents.base import Agent, BehaviourModel
from visr.agents.replay_successor_features import ReplaySuccessorFeatures
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
_NUM_FITTED = 4_000
"""Steps and segments from which the prior is computed."""
_LEAST_VARIANCE = 1e-6
"""Directions of phi with less of the largest variance are left out of the prior."""
_MOST_ITERATIONS = 50


@dataclass(frozen=True, eq=False)
class Preferences:
    """Answers of the form "the first is better than the second", by summed features."""

    name: str
    better: Floats
    """[N, d], sums of phi over the preferred segments."""
    worse: Floats
    """[N, d], over the others."""
    prior: Floats | None = None
    """[d, d], the covariance of w before the answers; None: every direction is as likely."""

    def record(self) -> TaskPrompt:
        """The number of answers."""
        return TaskPrompt("preferences", self.name)

    def infer(self, model: BehaviourModel, data: Callable[[], RewardedSteps]) -> Comparison:
        """P(a > b) = sigmoid(w . (Phi_a - Phi_b)), with a Gaussian prior on w."""
        posterior = fit(self.better - self.worse, self.prior)
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

    def draws(self, count: int, seed: int = 0) -> Floats:
        """Draws of w, [count, d]."""
        rng = np.random.default_rng(seed)
        return rng.multivariate_normal(self.mean, self.covariance, size=count)

    def samples(self, count: int, seed: int = 0) -> Floats:
        """Draws of w at unit length, [count, d]."""
        drawn = self.draws(count, seed)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def slow_prior(
    phi: NDArray[np.floating], episode: NDArray[np.intp], length: int = SEGMENT
) -> Floats | None:
    """C^(-1/2) S C^(-1/2), [d, d]: C the covariance of phi, S that of its sums over segments.

    Rewards phi . w that change slowly along an episode are the likelier ones. None where episodes, in
    order, are shorter than a segment.
    """
    rng, begins = np.random.default_rng(0), starts(episode, length)
    if len(begins) < 2:
        return None
    steps = phi[rng.choice(len(phi), min(_NUM_FITTED, len(phi)), replace=False)]
    begins = rng.choice(begins, min(_NUM_FITTED, len(begins)), replace=False)
    sums = segment_sums(phi, [(at, at + length) for at in begins.tolist()])
    spread, basis = np.linalg.eigh(np.cov(steps.T.astype(np.float64)))
    is_used = spread > max(_LEAST_VARIANCE * spread.max(), 1e-12)
    if not is_used.any():
        return None
    whitening = (basis[:, is_used] * spread[is_used] ** -0.5) @ basis[:, is_used].T
    return whitening @ np.cov(sums.T) @ whitening


def prior_of(agent: Agent, phi: NDArray[np.floating], episode: NDArray[np.intp]) -> Floats | None:
    """The slow prior for the replay learner, whose features are fixed; VISR's phi learn to be slow."""
    is_fixed = isinstance(agent, ReplaySuccessorFeatures)
    return slow_prior(phi, episode) if is_fixed else None


def fit(difference: Floats, prior: Floats | None = None) -> Posterior:
    """Logistic regression without intercept by Newton's method: difference [N, d] of better - worse."""
    if not len(difference):
        raise UserError("There are no preferences; give at least one pair of segments.")
    root = np.eye(difference.shape[1]) if prior is None else _root(prior)
    x = difference @ root
    scale = float(np.sqrt(np.square(x).sum(axis=1).mean()))
    if scale < 1e-9:
        raise UserError(
            "The two segments of every pair have the same features; choose other pairs."
        )
    x, size = x / scale, root.shape[1]
    w, precision = np.zeros(size), np.eye(size) / _PRIOR_DEVIATION**2
    curvature = precision
    for _ in range(_MOST_ITERATIONS):
        chance = 1 / (1 + np.exp(np.clip(x @ w, -30, 30)))  # of the other answer
        gradient = x.T @ chance - precision @ w
        curvature = (x * (chance * (1 - chance))[:, None]).T @ x + precision
        step = np.linalg.solve(curvature, gradient)
        w = w + step / max(1.0, float(np.linalg.norm(step)))
        if np.abs(step).max() < 1e-8:
            break
    covariance = np.asarray(np.linalg.inv(curvature), dtype=np.float64)
    return Posterior(root @ w, root @ covariance @ root.T)


def _root(prior: Floats) -> Floats:
    """R [d, k] with R R^T = prior, without directions that have no variance."""
    spread, basis = np.linalg.eigh((prior + prior.T) / 2)
    is_used = spread > 1e-9 * spread.max()
    return basis[:, is_used] * np.sqrt(spread[is_used])


def segment_sums(
    phi: NDArray[np.floating], segments: Sequence[tuple[int, int]]
) -> NDArray[np.float64]:
    """Sums of phi over segments [start, stop): [N, d]."""
    sums = [phi[start:stop].sum(axis=0, dtype=np.float64) for start, stop in segments]
    return np.array(sums).reshape(-1, phi.shape[1])


def starts(episode: NDArray[np.intp], length: int = SEGMENT) -> NDArray[np.intp]:
    """Steps at which a segment of `length` steps of one episode starts."""
    return np.flatnonzero(episode[: len(episode) - length + 1] == episode[length - 1 :])


def next_pair(
    phi: NDArray[np.floating],
    candidates: NDArray[np.intp],
    difference: Floats,
    seed: int,
    length: int = SEGMENT,
    prior: Floats | None = None,
) -> tuple[int, int]:
    """The starts of two segments to compare, given the differences [N, d] of the answers so far.

    With a prior, two draws of w from the posterior each name the best of some random segments (double
    Thompson sampling). Without one, the random pair that tells most about w: the entropy of the mean answer
    minus the mean entropy of the answers.
    """
    if len(candidates) < 2:
        raise UserError(
            f"No two segments of {length} steps were recorded; train with longer episodes."
        )
    rng = np.random.default_rng(seed)
    starts = rng.choice(candidates, _NUM_PROPOSED), rng.choice(candidates, _NUM_PROPOSED)
    first, second = (
        segment_sums(phi, [(at, at + length) for at in side.tolist()]) for side in starts
    )
    if not len(difference):  # nothing is known of w: the pair that differs most
        a = b = int(np.square(first - second).sum(axis=1).argmax())
    elif prior is not None:
        a, b = _two_favourites(first, second, fit(difference, prior).draws(_NUM_SAMPLES, seed))
    else:
        scale = float(np.sqrt(np.square(difference).sum(axis=1).mean()))
        a = b = _most_telling((first - second) / scale, fit(difference), seed)
    return int(starts[0][a]), int(starts[1][b])


def _two_favourites(first: Floats, second: Floats, draws: Floats) -> tuple[int, int]:
    """The best of the first sums [P, d] for one draw of w, and another of the second sums for another."""
    a = int((first @ draws[0]).argmax())
    best = (second @ draws[1:].T).argmax(axis=0)
    others = best[np.abs(second[best] - first[a]).max(axis=1) > 1e-9]
    return a, int(others[0]) if len(others) else int((second @ draws[0]).argmin())


def _most_telling(gaps: Floats, posterior: Posterior, seed: int) -> int:
    """The pair, of gaps [P, d], about which draws of w disagree most while each is sure."""
    drawn = posterior.draws(_NUM_SAMPLES, seed)
    chance = 1 / (1 + np.exp(-np.clip(gaps @ drawn.T, -30, 30)))
    return int((_entropy(chance.mean(axis=1)) - _entropy(chance).mean(axis=1)).argmax())


def _entropy(chance: Floats) -> Floats:
    p = np.clip(chance, 1e-12, 1 - 1e-12)
    return -p * np.log(p) - (1 - p) * np.log(1 - p)
