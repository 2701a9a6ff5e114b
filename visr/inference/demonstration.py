"""The demonstration prompt: do what this trajectory does."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visr.agents.base import Agent, BehaviourModel
from visr.errors import UserError
from visr.inference.collect import features
from visr.inference.regression import Comparison, Estimate
from visr.inference.steps import Floats, RewardedSteps
from visr.ops import sphere
from visr.storage.records.task import TaskPrompt

STATES, ACTIONS = "mode of q(w | states)", "likelihood of actions"
CONTRAST = "whitened contrast"
_CLOSE = 0.1
"""A share of agreeing actions that is lower by no more than this is as good."""
_LEAST_SPREAD = 1e-8
"""Directions of phi with less of the largest variance are left out."""
_MOST_STEPS = 400
"""Steps, evenly spaced, that candidates are compared on."""
_NUM_CANDIDATES = 256
_KAPPAS = (3.0, 30.0, 100.0)
"""Concentrations of the candidates around the best one so far, one round each."""
_INVERSE_TEMPERATURES = (1.0, 3.0, 10.0, 30.0)
"""Of a softmax policy in values of unit deviation; the likeliest one counts."""


@dataclass(frozen=True, eq=False)
class Demonstration:
    """States that somebody visited, and optionally the actions taken in them."""

    name: str
    states: NDArray
    """[N, ...], as networks take them."""
    actions: NDArray[np.int64] | None = None
    """[N], the action taken in each state; -1 where it is not known."""
    has_reference: bool = False
    """Whether there are other states to compare with: recorded ones, or all cells of a grid."""
    seed: int = 0

    def record(self) -> TaskPrompt:
        """Its name; the states are not kept."""
        return TaskPrompt("demonstration", self.name)

    def infer(self, model: BehaviourModel, data: Callable[[], RewardedSteps]) -> Comparison:
        """log q(w | tau) = sum_t phi(s_t) . w + const: w is the normalised mean of phi.

        Also the whitened difference from recorded states, which on six rewards of the packed grid
        reached .84 of optimal from one optimal episode (the mean of phi: .50). With actions also the w among
        many candidates whose policy makes them most likely (.70).
        """
        if len(self.states) < 1:
            raise UserError("The demonstration has no states; give at least one.")
        phi = self._features(model)
        mean = phi.mean(axis=0).astype(np.float64)
        length = float(np.linalg.norm(mean))
        if length < 1e-6:
            raise UserError(
                "The states of the demonstration have nothing in common (their mean phi is 0); give a "
                "shorter one."
            )
        w, error = mean / length, phi.std(axis=0) / math.sqrt(len(phi)) / length
        estimates = {STATES: Estimate(STATES, w, 0.0, math.inf, error.astype(np.float64))}
        words = [
            "The states have much in common if this is near 1: |mean phi| / mean |phi| = "
            f"{length / np.linalg.norm(phi, axis=1).mean():.2f} over {len(phi):,} states."
        ]
        best, shares = STATES, {}
        if self.has_reference:
            contrast = self._contrast(phi, data().features)
            if contrast is not None:
                estimates[CONTRAST], best = contrast, CONTRAST
        if self.actions is not None and isinstance(model, Agent):
            found = _likeliest(model, self.states, self.actions, w, self.seed)
            estimates[ACTIONS] = Estimate(ACTIONS, found.w, 0.0, math.inf, found.error)
            shares = {n: _agreement(model, self, e.w) for n, e in estimates.items()}
            if shares[best] < max(shares.values()) - _CLOSE:
                best = max(shares, key=lambda name: shares[name])
            words.append(
                f"Greedy actions agree with the demonstrated ones in {shares[ACTIONS]:.0%} of the steps "
                f"({shares[best]:.0%} for the best w, {_most_common(self.actions):.0%} for the most "
                "common action)."
            )
        for name, one in estimates.items():
            one.measures["mean phi . w"] = float((phi @ one.w).mean())
            if name in shares:
                one.measures["agreeing actions"] = shares[name]
        return Comparison(estimates, best, len(phi), 1, len(phi), words=words, counted="states")

    def _features(self, model: BehaviourModel) -> NDArray[np.float32]:
        """phi of the states, or of the steps between them where one state alone has no features."""
        if model.features_of_pairs and len(self.states) > 1:
            return features(model, self.states[1:], self.states[:-1])
        return features(model, self.states)

    def _contrast(self, phi: NDArray[np.float32], others: NDArray) -> Estimate | None:
        """C^(-1/2) (mean phi here - mean phi of others), C the others' covariance; None if it is 0."""
        others = others.astype(np.float64)
        spread, basis = np.linalg.eigh(np.cov(others.T))
        scale = np.zeros_like(spread)
        is_used = spread > _LEAST_SPREAD * spread.max()
        scale[is_used] = spread[is_used] ** -0.5
        whitening = (basis * scale) @ basis.T
        w = whitening @ (phi.mean(axis=0) - others.mean(axis=0))
        length = float(np.linalg.norm(w))
        if length < 1e-6:
            return None
        error = np.sqrt(np.square(whitening) @ phi.var(axis=0) / len(phi)) / length
        return Estimate(CONTRAST, w / length, 0.0, math.inf, error)


@dataclass(frozen=True, eq=False)
class _Likeliest:
    w: Floats
    error: Floats
    """[d], the deviation over candidates, weighted by their likelihood."""


@torch.inference_mode()
def _likeliest(
    agent: Agent, states: NDArray, actions: NDArray[np.int64], w: Floats, seed: int
) -> _Likeliest:
    """Search in rounds: all over the sphere and near w first, then ever closer to the best candidate."""
    rng = torch.Generator().manual_seed(seed)
    known = np.flatnonzero(actions >= 0)
    chosen = known[np.linspace(0, len(known) - 1, min(_MOST_STEPS, len(known))).astype(np.intp)]
    hidden = agent.psi.first_step(torch.as_tensor(states[chosen], device=agent.device))
    taken = torch.as_tensor(actions[chosen], device=agent.device)
    best = torch.as_tensor(w, dtype=torch.float32)
    candidates = torch.cat([best[None], sphere.uniform(_NUM_CANDIDATES, d=len(w), generator=rng)])
    scores = torch.empty(0)
    for kappa in (*_KAPPAS, None):
        scores = torch.stack([_log_likelihood(agent, hidden, taken, c) for c in candidates])
        best = candidates[int(scores.argmax())]
        if kappa is not None:
            near = sphere.vmf_sample(best, kappa, _NUM_CANDIDATES, rng)
            candidates = torch.cat([best[None], near])
    weight = torch.softmax(scores.double(), dim=0).numpy()
    spread = np.square(candidates.numpy() - best.numpy())
    return _Likeliest(best.numpy().astype(np.float64), np.sqrt(weight @ spread).astype(np.float64))


def _log_likelihood(agent: Agent, hidden: Tensor, taken: Tensor, w: Tensor) -> Tensor:
    """sum_t log pi(a_t | s_t, w) of a softmax policy in Q(s, a | w), at the likeliest temperature."""
    values = agent.values_of(hidden, w, gpi=False)
    values = (values - values.mean(dim=1, keepdim=True)) / values.std(dim=1).mean().clamp(min=1e-6)
    logs = [torch.log_softmax(beta * values, dim=1) for beta in _INVERSE_TEMPERATURES]
    return max(log.gather(1, taken[:, None]).sum().cpu() for log in logs)


@torch.inference_mode()
def _agreement(agent: Agent, given: Demonstration, w: Floats) -> float:
    """The share of known actions that are greedy for w."""
    assert given.actions is not None
    known = given.actions >= 0
    hidden = agent.psi.first_step(torch.as_tensor(given.states[known], device=agent.device))
    task = torch.as_tensor(w, dtype=torch.float32)
    greedy = agent.values_of(hidden, task, gpi=False).argmax(dim=1)
    return float((greedy.cpu().numpy() == given.actions[known]).mean())


def _most_common(actions: NDArray[np.int64]) -> float:
    known = actions[actions >= 0]
    return float(np.bincount(known).max() / len(known))
