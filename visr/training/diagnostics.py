"""Problems that the metrics of a run reveal: the evidence, the threshold and the advice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from visr.config.fields import AgentConfig
from visr.errors import UserError

PATIENCE = 10
"""Consecutive rows of metrics that must show a problem; the first rows of a healthy run may show it, too."""

COLLAPSED = 0.999
"""Length of phi's mean. The part of phi that differs between states then has length 0.045 (root mean
square), and so has the standard deviation of log q. Healthy runs started at 0.80 or less and later stayed
below 0.35; a collapsed one was at 0.99999."""

DEAD = 1e-5
"""psi's deviation over the states of an unroll, as a share of its size. If all units are dead, only rounding
is left, below 1e-6."""


@dataclass(frozen=True)
class Trouble:
    """A problem that more training will not solve."""

    name: str
    """For the progress display."""
    evidence: str
    advice: str


def trouble(config: AgentConfig, metrics: Mapping[str, float]) -> Trouble | None:
    """The problem that one row of metrics shows, if any."""
    concentration = metrics.get("feature_concentration", 0.0)
    if _learns_unit_features(config) and concentration > COLLAPSED:
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
    """(2 / (1 - gamma))^2: a discounted sum of cumulants of length 1 has at most length 1 / (1 - gamma), so
    two of them differ by at most twice that; infinite where cumulants are not bounded.
    """
    is_bounded = config.algorithm in ("nsq", "pos-nsq") or _learns_unit_features(config)
    if not is_bounded or config.bonus != "none":
        return math.inf
    return (1 + config.value_weight) * (2 / (1 - config.gamma)) ** 2


def _learns_unit_features(config: AgentConfig) -> bool:
    """Whether the cumulant is a learned phi of unit length."""
    is_learned = config.algorithm == "visr" and config.features == "learned"
    return is_learned and config.objective == "visr"


def refuse_non_finite(tensors: Mapping[str, Tensor], num_steps: int) -> None:
    """Refuse to save a checkpoint that contains NaN or inf."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise UserError(diverged(num_steps, name, "not finite"))


def diverged(num_steps: int, name: str, value: str) -> str:
    """The sentence for metrics or weights that are not finite."""
    return (
        f"Training diverged before step {num_steps:,}: {name} is {value}; "
        "the last checkpoint is kept, so start again with lower learning rates."
    )
