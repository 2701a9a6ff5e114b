"""The preferences prompt: which of two recorded segments is better, many times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from visr.agents.base import Agent, BehaviourModel
from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.errors import UserError
from visr.inference.regression import Comparison, Estimate
from visr.inference.steps import Floats, RewardedSteps
from visr.storage.files import read_json
from visr.storage.records.task import TaskPrompt

METHOD = "Bradley-Terry"
SEGMENT = 20
"""Steps of a segment that is shown to a person."""
_PRIOR_DEVIATION = 3.0
"""Of each weight, with the differences of segments scaled to unit deviation."""
_EQUAL_DEVIATION = 0.1
"""Of w . difference of two segments that are as good, in the same units."""
_NUM_SAMPLES = 100
_NUM_PROPOSED = 400
"""Segments among which a pair is chosen."""
_SMOOTHNESS = 5.0
_NUM_FITTED = 20_000
"""Steps from which the prior is computed."""
_LEAST_VARIANCE = 1e-6
"""Directions of phi with less of the largest variance are left out of the prior."""
_MOST_ITERATIONS = 50


@dataclass(frozen=True, eq=False)
class Preferences:
    """Answers "the first is better than the second" and "both are as good", by summed features."""

    name: str
    better: Floats
    """[N, d], sums of phi over the preferred segments."""
    worse: Floats
    """[N, d], over the others."""
    equal: Floats
    """[M, d], differences of the sums of two segments that are as good."""
    prior: Floats | None = None
    """[d, d], the covariance of w before the answers; None: all directions are equally likely."""

    def record(self) -> TaskPrompt:
        """The number of answers."""
        return TaskPrompt("preferences", self.name)

    def posterior(self) -> Posterior:
        """What the answers say of w."""
        return fit(self.better - self.worse, self.equal, self.prior)

    def infer(self, model: BehaviourModel, data: Callable[[], RewardedSteps]) -> Comparison:
        """P(a > b) = sigmoid(w . (Phi_a - Phi_b)), with a Gaussian prior on w."""
        if not len(self.better):
            raise UserError("Both segments of every pair are as good; say of one which is better.")
        posterior = self.posterior()
        w = posterior.mean / np.linalg.norm(posterior.mean)
        samples = posterior.samples(_NUM_SAMPLES)
        cosine = float((samples @ w).mean())
        agreed = float(((self.better - self.worse) @ w > 0).mean())
        as_good = f"; {len(self.equal)} more say that both are as good" if len(self.equal) else ""
        words = [
            f"w agrees with {agreed:.0%} of {len(self.better)} answers{as_good}.",
            f"Other w that fit the answers as well have a mean cosine of {cosine:.2f} with it: "
            + (
                "more answers would change little." if cosine > 0.95 else "more answers would help."
            ),
        ]
        measures = {"agreeing answers": agreed, "cosine of samples": cosine}
        found = Estimate(METHOD, w, 0.0, math.inf, samples.std(axis=0), measures)
        count = len(self.better) + len(self.equal)
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


def smooth_prior(
    phi: NDArray[np.floating], episode: NDArray[np.intp], length: int = SEGMENT
) -> Floats | None:
    """C^(-1/2) (1 + 5 C^(-1/2) D C^(-1/2))^(-2) C^(-1/2), [d, d]: C is the covariance of phi, D that of its
    change in one step; scaled so that differences of segments have deviation 3.

    Rewards phi . w that change little from step to step are likelier. A step counts once, however often the
    policies repeat it. None without a segment in one episode.
    """
    rng, begins = np.random.default_rng(0), starts(episode, length)
    if len(begins) < 2:
        return None
    at = rng.choice(begins, min(_NUM_FITTED, len(begins)), replace=False)
    steps = np.unique(np.hstack([phi[at], phi[at + 1]]).astype(np.float64), axis=0)
    now, after = np.split(steps, 2, axis=1)
    change = after - now
    spread, basis = np.linalg.eigh(np.cov(now.T))
    is_used = spread > max(_LEAST_VARIANCE * spread.max(), 1e-12)
    if not is_used.any():
        return None
    whiten = basis[:, is_used] * spread[is_used] ** -0.5
    changed = change @ whiten
    speed, turn = np.linalg.eigh(changed.T @ changed / len(changed))
    root = (whiten @ turn) / (1 + _SMOOTHNESS * speed.clip(0))
    sums = segment_sums(phi, [(i, i + length) for i in at[:2_000].tolist()]) @ root
    return root @ root.T * _PRIOR_DEVIATION**2 / max(2 * float(sums.var(axis=0).sum()), 1e-12)


def prior_of(agent: Agent, phi: NDArray[np.floating], episode: NDArray[np.intp]) -> Floats | None:
    """The smooth prior for the replay learner, whose features are fixed; VISR's phi learn to be slow."""
    is_fixed = isinstance(agent, ReplaySuccessorFeatures)
    return smooth_prior(phi, episode) if is_fixed else None


def fit(difference: Floats, equal: Floats, prior: Floats | None = None) -> Posterior:
    """Newton's method for sum log sigmoid(w . x) - |w . y|^2 / 2 tau^2 - |w|^2 / 2 sigma^2.

    x are the differences [N, d] of better - worse, y those [M, d] of segments that are as good.
    """
    if not len(difference) + len(equal):
        raise UserError("There are no preferences; give at least one pair of segments.")
    root = (
        np.eye((difference if len(difference) else equal).shape[1])
        if prior is None
        else _root(prior)
    )
    x, y = (part.reshape(-1, len(root)) @ root for part in (difference, equal))
    size = np.sqrt(np.square(x if len(x) else y).sum(axis=1).mean())
    if len(x) and size < 1e-9:
        raise UserError(
            "The two segments of every pair have the same features; choose other pairs."
        )
    if prior is None:
        root = root / max(size, 1e-9)
        x, y = (part / max(size, 1e-9) for part in (x, y))
    known = np.eye(root.shape[1]) / _PRIOR_DEVIATION**2 + y.T @ y / _EQUAL_DEVIATION**2
    w, curvature = np.zeros(root.shape[1]), known
    for _ in range(_MOST_ITERATIONS):
        chance = 1 / (1 + np.exp(np.clip(x @ w, -30, 30)))  # of the other answer
        gradient = x.T @ chance - known @ w
        curvature = (x * (chance * (1 - chance))[:, None]).T @ x + known
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
    known: Posterior | None,
    number: int,
    length: int = SEGMENT,
) -> tuple[int, int]:
    """The starts of two segments to compare, given what the answers so far say of w.

    Of some random segments it is the pair with the largest E[max(w . a, w . b)] (Lin et al., 2022): both may
    be good, and which is better is not known yet.
    """
    if len(candidates) < 2:
        raise UserError(
            f"No two segments of {length} steps were recorded; train with longer episodes."
        )
    proposed = np.random.default_rng(number).choice(candidates, _NUM_PROPOSED)
    sums = segment_sums(phi, [(at, at + length) for at in proposed.tolist()])
    if known is None:  # nothing is known of w: the pair that differs most
        value = _squared_distances(sums @ sums.T)
    else:
        value = _expected_maximum(sums @ known.mean, sums @ known.covariance @ sums.T)
    a, b = np.unravel_index(value.argmax(), value.shape)
    return int(proposed[a]), int(proposed[b])


def _expected_maximum(mean: Floats, covariance: Floats) -> Floats:
    """E[max(x_i, x_j)] of a Gaussian x; -inf where both are the same: [P], [P, P] -> [P, P]."""
    variance = _squared_distances(covariance)
    deviation = np.sqrt(np.maximum(variance, 1e-12))
    gap = (mean[:, None] - mean) / deviation
    density = np.exp(-np.square(gap) / 2) / math.sqrt(2 * math.pi)
    cumulative = torch.special.ndtr(torch.from_numpy(gap)).numpy()
    value = mean + deviation * (gap * cumulative + density)
    return np.where(variance < 1e-9, -np.inf, value)


def _squared_distances(products: Floats) -> Floats:
    """|x_i - x_j|^2 from inner products [P, P]."""
    size = np.diag(products)
    return size[:, None] + size - 2 * products


def pairs_of_file(path: Path) -> list[Any]:
    """{"pairs": [{"better": SEGMENT, "worse": SEGMENT}, {"equal": [SEGMENT, SEGMENT]}, ...]}, or the list."""
    content = read_json(path)
    pairs = content.get("pairs") if isinstance(content, dict) else content
    if not isinstance(pairs, list) or not pairs:
        raise UserError(
            f'{path} holds no preferences; write {{"pairs": [{{"better": [0, 20], "worse": [40, 60]}}]}}.'
        )
    try:
        return [_pair(p) if isinstance(p, dict) else p for p in pairs]
    except KeyError as error:
        raise UserError(
            f"{path}: a pair has no {error}; write better and worse, or equal."
        ) from None


def _pair(named: dict[str, Any]) -> tuple[Any, ...]:
    """(better, worse), or (one, other, "equal")."""
    equal = named.get("equal")
    if isinstance(equal, list) and len(named) == 1:
        return (*equal, "equal")
    return named["better"], named["worse"]
