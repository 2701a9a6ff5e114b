"""What goes wrong in the numbers of a run: how it shows, from where on it is certain, and the way out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from visr.config.fields import AgentConfig
from visr.errors import UserError

PATIENCE = 10
"""Rows of metrics in a row that must show the same trouble: the first of a run may, for good reasons."""

COLLAPSED = 0.999
"""Length of phi's mean. The rest of phi, all that tells states apart, is then 0.045 long (root mean square),
and so is the deviation of log q. Healthy runs here began at 0.80 or less and later stayed below 0.35; one
that had collapsed stood at 0.99999."""

DEAD = 1e-5
"""psi's deviation over the states of an unroll, as a share of its size. One whose units are all dead has
none but what rounding leaves, below 1e-6."""


@dataclass(frozen=True)
class Trouble:
    """Something that more training will not mend."""

    name: str
    """For the progress display."""
    evidence: str
    advice: str


def trouble(config: AgentConfig, metrics: Mapping[str, float]) -> Trouble | None:
    """What one row of metrics gives away, if anything."""
    concentration = metrics.get("feature_concentration", 0.0)
    if _has_unit_features(config) and concentration > COLLAPSED:
        return Trouble(
            "phi has collapsed",
            f"phi is nearly the same in all states (the length of its mean is {concentration:.5f})",
            "start again with --centred-features or a lower --phi-learning-rate",
        )
    if config.algorithm != "uniform" and metrics.get("psi_spread", 1.0) < DEAD:
        return Trouble(
            "psi is dead",
            f"psi is the same in all states (it varies by {metrics['psi_spread']:.0e} of its size)",
            "start again with a lower --psi-learning-rate or other --hidden-sizes",
        )
    largest = largest_error(config)
    if metrics.get("psi_loss", 0.0) > largest:
        return Trouble(
            "psi explodes",
            f"psi_loss is {metrics['psi_loss']:.3g}, though no sum of cumulants of length 1 or less can be "
            f"wrong by more than {largest:.3g}",
            "start again with a lower --psi-learning-rate or a longer --target-period",
        )
    return None


def largest_error(config: AgentConfig) -> float:
    """(2 / (1 - gamma))^2: no discounted sum of cumulants of length 1 is longer than 1 / (1 - gamma), and
    so no two such sums are further apart; no bound where cumulants have none.
    """
    bounded = config.algorithm in ("nsq", "pos-nsq") or _has_unit_features(config)
    if not bounded or config.bonus != "none":
        return math.inf
    return (1 + config.value_weight) * (2 / (1 - config.gamma)) ** 2


def _has_unit_features(config: AgentConfig) -> bool:
    """Whether the cumulant is a phi of unit length that learns, so that it could be otherwise."""
    learns = config.algorithm == "visr" and config.features == "learned"
    return learns and config.objective == "visr"


def refuse_non_finite(tensors: Mapping[str, Tensor], num_steps: int) -> None:
    """A checkpoint must not replace a good one if numbers in it are none."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise UserError(diverged(num_steps, name, "not finite"))


def diverged(num_steps: int, name: str, what: str) -> str:
    """The sentence for numbers that are none."""
    return (
        f"Training diverged before step {num_steps:,}: {name} is {what}; "
        "the last checkpoint is kept, so start again with lower learning rates."
    )
