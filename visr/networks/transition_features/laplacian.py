"""Laplacian features: states between which few steps lie have similar features."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from visr.errors import UserError
from visr.networks.transition_features.base import (
    TransitionFeatures,
    ended,
    of_unroll,
    whitening,
)
from visr.networks.transition_features.encoder import draw_steps, off_diagonal_square
from visr.networks.transition_features.learned import LearnedFeatures
from visr.types import EnvSpec, Transitions, Unroll

_FLOOR = 1e-6
MOST_STATES = 4_096
_MEAN_STEPS = 4.0
"""Mean number of steps between two states that should be alike."""


class LaplacianStates(TransitionFeatures):
    """The end, and the top eigenvectors of the transitions between numbered states, whitened.

    Every recorded action of a state has the same weight, however often it was taken, so that the features
    of a deterministic world have no noise.
    """

    of_states = True

    def __init__(self, num_states: int, num_features: int) -> None:
        super().__init__()
        if num_states > MOST_STATES:
            raise UserError(
                f"transition_features = 'laplacian' counts steps between at most {MOST_STATES:,} states, "
                f"and there are {num_states:,}; use --transition-features projection."
            )
        self.num_features = num_features
        self.table: Tensor
        self.at_end: Tensor
        self.register_buffer("table", torch.randn(num_states, num_features))  # until `fit`
        self.register_buffer("at_end", torch.zeros(num_features))

    def fit(self, recorded: Unroll) -> None:
        """Count, take the eigenvectors, whiten."""
        steps = of_unroll(recorded)
        reached = steps.next_observation
        rows = eigenvectors(steps, len(self.table), self.num_features - 1)
        raw = torch.cat([ended(steps)[:, None], rows[reached]], dim=1)
        white = whitening(raw, floor=_FLOOR)
        self.table.copy_(rows @ white[1:])
        self.at_end.copy_(white[0])

    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]"""
        return self.table[steps.next_observation] + ended(steps)[:, None] * self.at_end


def slowness(chi: TransitionFeatures, steps: Transitions, gamma: float) -> Tensor:
    """1 / (1 - gamma c) for the correlation c of each feature with itself a step later, at rms 1: [d].

    It is the discounted sum of an eigenvector of random steps, relative to its value. Unused features: 0.
    """
    assert steps.observation is not None
    before, after = chi(Transitions(steps.observation)), chi(Transitions(steps.next_observation))
    square = before.square().mean(dim=0)
    kept = ((before * after).mean(dim=0) / square.clamp(min=1e-9)).clamp(-1, 1)
    sums = torch.where(square > _FLOOR, 1 / (1 - gamma * kept), 0.0)
    return sums / sums.square().mean().sqrt()


def eigenvectors(steps: Transitions, num_states: int, count: int) -> Tensor:
    """[S, count]: D^(-1/2) times the top eigenvectors of D^(-1/2) (P + P^T) D^(-1/2); 0 where never seen.

    P sums the probabilities of the next states over the actions that were recorded.
    """
    before, action, after = steps.observation, steps.action, steps.next_observation
    assert before is not None
    assert action is not None
    pair = before * (action.max() + 1) + action
    weight = 1 / pair.bincount()[pair].double()
    moves = torch.bincount(before * num_states + after, weight, minlength=num_states**2)
    between = moves.view(num_states, num_states)
    between = between + between.T
    degree = between.sum(dim=1)
    root = torch.where(degree > 0, degree.clamp(min=1e-9).rsqrt(), 0.0)
    values, vectors = torch.linalg.eigh(root[:, None] * between * root)
    best = values.argsort(descending=True, stable=True)[:count]
    rows = vectors[:, best] * root[:, None] * degree.sum().sqrt()
    found = torch.zeros(num_states, count)
    found[:, : len(best)] = rows.float()
    return found


class LaplacianFeatures(LearnedFeatures):
    """1, the end, and a learned e(s') that is alike in states a few steps apart, whitened.

    The spectral contrastive loss, whose minimum spans the top eigenvectors of the transition operator.
    """

    of_states = True

    def __init__(self, spec: EnvSpec, num_features: int, updates: int) -> None:
        super().__init__(spec, num_features, num_features - 2, updates)

    def loss(self, recorded: Unroll, rng: Generator) -> Tensor:
        """-2 mean e(s) . e(s+) + mean (e(s_i) . e(s_j))^2, with s+ some steps after s."""
        time, unroll = draw_steps(recorded, rng)
        later = _steps_later(recorded, time, unroll, rng)
        first = self.encoder(recorded.observation[time, unroll])
        second = self.encoder(recorded.observation[later, unroll])
        alike = (first * second).sum(dim=1).mean()
        return -2 * alike + off_diagonal_square(first @ second.T)

    def rows(self, steps: Transitions) -> Tensor:
        """e(s')"""
        return self.encoder.of_many(steps.next_observation)


def _steps_later(recorded: Unroll, time: Tensor, unroll: Tensor, rng: Generator) -> Tensor:
    """A later time in the same episode and unroll, a geometric number of steps away: [N]."""
    draws = torch.rand(len(time), generator=rng).clamp(min=1e-9)
    steps = 1 + (draws.log() / torch.tensor(1 - 1 / _MEAN_STEPS).log()).long()
    later = (time + steps).clamp(max=len(recorded.action))
    resets = torch.cat([torch.zeros_like(recorded.is_reset[:1]), recorded.is_reset])
    count = resets.long().cumsum(dim=0)
    same = count[later, unroll] == count[time, unroll]
    return torch.where(same, later, time + 1)
