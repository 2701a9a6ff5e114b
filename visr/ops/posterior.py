"""What rewarded steps say about w, as a Gaussian; and draws from it, brought to the unit sphere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visr.ops.regression import RewardSums

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Posterior:
    """w ~ N(mean, basis diag(deviation^2) basis^T)."""

    mean: Vector
    """[d]"""
    basis: Vector
    """[d, d], orthonormal columns."""
    deviation: Vector
    """[d], along each column."""

    def draw(self, random: np.random.Generator) -> NDArray[np.float32]:
        """A task to try: w / |w| of one draw (Thompson sampling on the sphere)."""
        w = self.mean + self.basis @ (self.deviation * random.standard_normal(len(self.mean)))
        return (w / np.linalg.norm(w)).astype(np.float32)


def posterior_of(sums: RewardSums, *, centred: bool = False) -> Posterior:
    """Bayesian linear regression r = phi . w + noise, prior N(0, tau^2 I), everything in the reward's unit.

    tau makes the prior explain the reward's whole variance on average; the noise is what the fit then
    leaves over. Where nothing was rewarded nothing is known, and draws are uniform on the sphere.
    """
    d, num_steps = sums.num_features, max(sums.num_steps, 1)
    moments = sums.moments[:-1, :-1]
    if centred:
        mean = sums.moments[-1, :-1] / num_steps
        moments = moments - num_steps * np.outer(mean, mean)
    gram, cross, square = moments[:-1, :-1], moments[:-1, -1], float(moments[-1, -1])
    energy = float(np.trace(gram))
    if square <= 0 or energy <= 0 or not sums.num_rewarded:
        return Posterior(np.zeros(d), np.eye(d), np.ones(d))
    prior = square / energy  # tau^2
    spread, basis = np.linalg.eigh(gram)
    spread = np.maximum(spread, 0.0)
    along = basis.T @ cross
    # The noise by one step of evidence: the residual of the fit under the largest noise there can be.
    largest = square / num_steps
    w = along / (spread + largest / prior)
    residual = square - 2 * w @ along + spread @ w**2
    noise = max(float(residual), 1e-12 * square) / num_steps
    precision = spread / noise + 1 / prior
    return Posterior(basis @ (along / noise / precision), basis, precision**-0.5)
