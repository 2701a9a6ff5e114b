"""Reward regression r ~ phi . w from running sums, O(d^2) in memory, and how far to trust it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visr.config.fields import InferenceConfig
from visr.errors import UserError

Vector = NDArray[np.float64]

FLOOR = 1e-10
"""The rank cut-off: a direction with a smaller share of sum |phi|^2 counts as absent.

Rounding errors have a share of 1e-16 to 1e-13 in every direction, so that a direction above the floor is
known to several digits. Its standard deviation may still be 1e5 times smaller than the largest one.
"""


class RewardSums:
    """The sums over steps that regression needs.

    With z = (phi, r, 1), all of them are parts of one matrix: `moments` = sum of z z^T, [d+2, d+2].
    """

    def __init__(self, num_features: int) -> None:
        if num_features < 1:
            raise UserError(f"num_features = {num_features} must be at least 1.")
        self._spectra: dict[bool, tuple[Vector, Vector]] = {}
        self.moments = np.zeros((num_features + 2, num_features + 2))
        self.num_rewarded = 0
        """Steps with r != 0."""

    @property
    def moments(self) -> NDArray[np.float64]:
        return self._moments

    @moments.setter
    def moments(self, moments: NDArray[np.float64]) -> None:
        self._moments = moments
        self._spectra.clear()

    @property
    def num_features(self) -> int:
        return len(self.moments) - 2

    @property
    def num_steps(self) -> int:
        return int(self.moments[-1, -1])

    def add(self, phi: ArrayLike, r: ArrayLike) -> None:
        """Add steps: phi [N, d], r [N]."""
        phi, r = np.asarray(phi, np.float64), np.asarray(r, np.float64)
        if r.ndim != 1 or phi.shape != (len(r), self.num_features):
            raise UserError(
                f"phi has shape {phi.shape} and r {r.shape}; "
                f"regression needs [N, {self.num_features}] and [N]."
            )
        _require_finite("features phi", phi)
        _require_finite("rewards", r)
        z = np.column_stack([phi, r, np.ones_like(r)])
        self.moments += z.T @ z
        self.num_rewarded += int(np.count_nonzero(r))

    def about_mean(self) -> NDArray[np.float64]:
        """The moments of (phi, r) with the means subtracted, [d+1, d+1]."""
        mean = self.moments[-1, :-1] / max(self.num_steps, 1)
        return self.moments[:-1, :-1] - self.num_steps * np.outer(mean, mean)

    def spectrum(self, centred: bool) -> tuple[Vector, Vector]:
        """Eigenvalues [d] and eigenvectors [d, d] of phi's moments, for all regressions on these sums."""
        if centred not in self._spectra:
            moments = self.about_mean() if centred else self.moments[:-1, :-1]
            spread, basis = np.linalg.eigh(moments[:-1, :-1])
            self._spectra[centred] = spread, basis
        return self._spectra[centred]

    def __add__(self, other: RewardSums) -> RewardSums:
        """The sums of both sets of steps."""
        total = RewardSums(self.num_features)
        total.moments = self.moments + other.moments
        total.num_rewarded = self.num_rewarded + other.num_rewarded
        return total


@dataclass(frozen=True, eq=False)
class Fit:
    """r ~ scale * phi . w + intercept, and how far to trust it."""

    w: NDArray[np.float64]
    """[d]; of unit length from `fit_task`, with scale 1 from `solve`."""
    intercept: float
    """0 unless centred."""
    r_squared: float
    """1 - SSE / SST, with SST about the mean of r: negative if worse than a constant; 0 if r is constant."""
    condition_number: float
    """Of phi's second moments (centred if the fit is), without the penalty; inf if rank-deficient."""
    standard_error: NDArray[np.float64]
    """[d], for independent residuals of equal variance; inf without degrees of freedom.

    Steps of one episode depend on each other, so that the true error is larger. Directions in which phi
    never varies are 0 in w and have no error; the bias of ridge is not included.
    """
    num_steps: int
    num_rewarded: int
    scale: float = 1.0


def fit_task(sums: RewardSums, config: InferenceConfig) -> Fit:
    """Regress as configured and bring w to unit length: the scale of w does not change the policy."""
    fit = solve(sums, centred=config.centred, ridge=config.ridge, whitened=config.whitened)
    length = float(np.linalg.norm(fit.w))
    if length < 1e-12:
        raise UserError(
            "The reward has nothing in common with the features (w = 0), so no task can be inferred "
            "from it; train with more features (--num-features) or change the reward."
        )
    return dataclasses.replace(
        fit, w=fit.w / length, standard_error=fit.standard_error / length, scale=length
    )


LEAST_SQUARES = InferenceConfig()
"""The paper's regression: no penalty, nothing centred."""


def solve(
    sums: RewardSums, *, centred: bool = False, ridge: float = 0.0, whitened: bool = False
) -> Fit:
    """w = argmin sum (r - phi . w)^2, of minimum norm where it is not unique.

    `centred` subtracts the means of phi and r first, so that a constant offset of r does not change w.
    `ridge` adds ridge * trace(sum phi phi^T) / d, of the uncentred phi, to the diagonal of the moments M.
    `whitened` gives M^(-1/2) sum phi r at its best scale: the coefficients of whitened features. It is a
    compromise between least squares, M^-1 sum phi r, which gives rare directions of phi full weight, and
    the correlation sum phi r, which gives them almost none.
    """
    if not 0 <= ridge < math.inf:
        raise UserError(f"ridge = {ridge} must be a finite number of at least 0.")
    if sums.num_steps == 0:
        raise UserError("There are no steps to regress the reward on; add at least one.")
    num_steps, plain = sums.num_steps, sums.moments[:-1, :-1]
    mean = sums.moments[-1, :-1] / num_steps
    about_mean = sums.about_mean()
    is_constant = about_mean[-1, -1] <= 1e-12 * plain[-1, -1]
    if is_constant:
        about_mean[-1, :] = about_mean[:, -1] = 0.0  # only rounding errors are left
    moments = about_mean if centred else plain
    gram, cross, square = moments[:-1, :-1], moments[:-1, -1], moments[-1, -1]

    # In the eigenbasis of the moments, their inverse is a division by each eigenvalue (`spread`).
    energy = np.trace(plain[:-1, :-1])
    spread, basis = sums.spectrum(centred)
    spread = np.where(spread > FLOOR * energy, spread, 0.0)
    penalised = spread + ridge * energy / sums.num_features
    inverse = np.divide(1.0, penalised, out=np.zeros_like(spread), where=spread > 0)
    if whitened:
        inverse = _at_best_scale(np.sqrt(inverse), spread, basis.T @ cross)
    w = basis @ (inverse * (basis.T @ cross))

    sse = max(square - 2 * w @ cross + w @ gram @ w, 0.0)
    freedom = num_steps - centred - spread @ inverse
    error = np.full_like(w, math.inf)
    if freedom > 1e-6:
        error = np.sqrt(sse / freedom * (basis**2 @ (inverse * spread * inverse)))
    return Fit(
        w=w,
        intercept=float(mean[-1] - mean[:-1] @ w) if centred else 0.0,
        r_squared=0.0 if is_constant else float(1 - sse / about_mean[-1, -1]),
        condition_number=float(spread[-1] / spread[0]) if spread[0] > 0 else math.inf,
        standard_error=error,
        num_steps=num_steps,
        num_rewarded=sums.num_rewarded,
    )


def _at_best_scale(gain: Vector, spread: Vector, cross: Vector) -> Vector:
    """The multiple of `gain` for which w = gain * cross has the least error, in the eigenbasis."""
    w = gain * cross
    size = float(spread @ w**2)
    return gain * (float(w @ cross) / size if size > 0 else 0.0)


def projected(sums: RewardSums, w: Vector) -> RewardSums:
    """The sums with phi . w as the only feature."""
    d = sums.num_features
    basis = np.zeros((d + 2, 3))
    basis[:d, 0], basis[d, 1], basis[d + 1, 2] = w, 1.0, 1.0
    narrow = RewardSums(1)
    narrow.moments = basis.T @ sums.moments @ basis
    narrow.num_rewarded = sums.num_rewarded
    return narrow


def predicted(held_out: RewardSums, fit: Fit) -> float:
    """1 - SSE / SST of a fit's predictions on other steps; 0 where their reward never changes."""
    coefficients = np.concatenate([fit.w, [-1.0, fit.intercept]])  # phi . w - r + intercept
    sse = float(coefficients @ held_out.moments @ coefficients)
    num_steps = max(held_out.num_steps, 1)
    square, mean = held_out.moments[-2, -2], held_out.moments[-1, -2] / num_steps
    sst = float(square - num_steps * mean**2)
    return 1 - max(sse, 0.0) / sst if sst > 1e-12 * max(square, 1e-300) else 0.0


def mean_direction(sums: RewardSums) -> Vector:
    """E[r phi] at unit length; 0 where it is 0."""
    cross = sums.moments[:-2, -2]
    length = float(np.linalg.norm(cross))
    return cross / length if length > 1e-12 else np.zeros_like(cross)


def _require_finite(what: str, x: NDArray[np.float64]) -> None:
    bad = x.size - np.count_nonzero(np.isfinite(x))
    if bad:
        raise UserError(
            f"{bad} of {x.size} {what} are NaN or infinite; regression needs finite numbers, "
            "so mend the reward or leave those steps out."
        )
