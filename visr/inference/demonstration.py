"""The demonstration prompt: do what this trajectory does."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visr.agents.base import BehaviourModel
from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.errors import UserError
from visr.inference.action_likelihood import ActionLikelihood
from visr.inference.collect import features
from visr.inference.inverse_dynamics import infer_actions
from visr.inference.recording import Recording
from visr.inference.regression import Comparison, Estimate
from visr.inference.steps import Floats, RewardedSteps
from visr.storage.records.task import TaskPrompt

STATES, ACTIONS = "mode of q(w | states)", "likelihood of actions"
CONTRAST, SHIFTED = "whitened contrast", "contrast and constant"
CONSTANT, PRACTISED = "constant reward", "practised task"
_LEAST_SPREAD = 1e-8
"""Directions of phi with less of the largest variance are left out."""
_CONSTANTS = (-3.0, -1.0, -0.3, 0.3, 1.0, 3.0)
"""Rewards of every step that are added to the contrast, in its standard deviations."""
_RIDGE = 1e-3
"""Of the regression of a constant reward, relative to phi's mean second moment."""


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
    recorded: Callable[[], Recording] | None = None
    """Recorded steps from which the actions between states can be inferred; None if there are not any."""
    seed: int = 0

    def record(self) -> TaskPrompt:
        """Its name; the states are not kept."""
        return TaskPrompt("demonstration", self.name)

    def infer(self, model: BehaviourModel, data: Callable[[], RewardedSteps]) -> Comparison:
        """log q(w | tau) = sum_t phi(s_t) . w + const: w is the normalised mean of phi.

        Also the whitened difference from recorded states. With actions, given or inferred from recorded
        steps, also a constant reward, both together, the tasks that were practised, and a search; the best
        is then the one that makes the actions most likely, less what it costs to choose it among others.
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
        best, others = STATES, data().features.astype(np.float64) if self.has_reference else None
        if others is not None and (contrast := _contrast(phi, others)) is not None:
            estimates[CONTRAST], best = contrast, CONTRAST
        actions, inferred = self._actions()
        words += inferred
        if actions is not None:
            likelihood = ActionLikelihood(model, self.states, actions)
            best = _compare_by_actions(likelihood, model, estimates, others, self.seed)
            words.append(_agreement_in_words(likelihood, estimates[best].w))
        for one in estimates.values():
            one.measures["mean phi . w"] = float((phi @ one.w).mean())
        return Comparison(estimates, best, len(phi), 1, len(phi), words=words, counted="states")

    def _features(self, model: BehaviourModel) -> NDArray[np.float32]:
        """phi of the states, or of the steps between them where one state alone has no features."""
        if model.features_of_pairs and len(self.states) > 1:
            return features(model, self.states[1:], self.states[:-1])
        return features(model, self.states)

    def _actions(self) -> tuple[NDArray[np.int64] | None, list[str]]:
        """The actions as given, or as recorded steps tell them; and a sentence about those."""
        if self.actions is not None:
            return (self.actions if (self.actions >= 0).any() else None), []
        if self.recorded is None:
            return None, []
        found = infer_actions(self.states, self.recorded(), self.seed)
        if found is None:
            return None, ["The actions were not given, and recorded steps do not tell them."]
        words = (
            "The actions between the states were inferred from recorded steps, where such a guess is "
            f"right in {found.accuracy:.1%}."
        )
        return np.append(found.actions, -1), [words]


def _compare_by_actions(
    likelihood: ActionLikelihood,
    model: BehaviourModel,
    estimates: dict[str, Estimate],
    others: Floats | None,
    seed: int,
) -> str:
    """Add the estimates that need actions, and measure all; the name of the best.

    A method that chooses among n candidates costs log n, and a search over the sphere d/2 log N for N steps
    (the Bayesian information criterion): in many dimensions it explains any actions.
    """
    costs = dict.fromkeys(estimates, 0.0)

    def add(method: str, candidates: Floats) -> None:
        scores = [likelihood.of(w) for w in candidates]
        w = candidates[int(np.argmax(scores))]
        estimates[method] = Estimate(method, w, 0.0, math.inf, np.zeros(len(w)))
        costs[method] = math.log(len(candidates))

    if others is not None:
        constant = _of_constant_reward(others)
        if CONTRAST in estimates:
            contrast = estimates[CONTRAST].w
            contrast = contrast / max(float((others @ contrast).std()), 1e-9)
            shifted = np.stack([contrast + share * constant for share in _CONSTANTS])
            add(SHIFTED, _unit(shifted))
        add(CONSTANT, _unit(np.stack([constant, -constant])))
    if isinstance(model, ReplaySuccessorFeatures):
        add(PRACTISED, _unit(model.known_tasks.cpu().numpy().astype(np.float64)))
    found = likelihood.search(estimates[STATES].w, seed)
    estimates[ACTIONS] = Estimate(ACTIONS, found.w, 0.0, math.inf, found.error)
    costs[ACTIONS] = 0.5 * len(found.w) * math.log(max(likelihood.num_steps, 2))
    scores = {}
    for name, one in estimates.items():
        total = likelihood.of(one.w)
        scores[name] = total - costs[name]
        one.measures["log-likelihood of a step"] = total / likelihood.num_steps
        one.measures["agreeing actions"] = likelihood.agreement(one.w)
    return max(scores, key=lambda name: scores[name])


def _agreement_in_words(likelihood: ActionLikelihood, w: Floats) -> str:
    return (
        f"Greedy actions agree with the demonstrated ones in {likelihood.agreement(w):.0%} of the steps "
        f"({likelihood.share_of_most_common:.0%} for the most common action)."
    )


def _contrast(phi: NDArray[np.float32], others: Floats) -> Estimate | None:
    """C^(-1/2) (mean phi here - mean phi of others), C the others' covariance; None if it is 0."""
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


def _of_constant_reward(others: Floats) -> Floats:
    """w with phi . w near 1 in every recorded step."""
    moments = others.T @ others
    moments += _RIDGE * np.trace(moments) / len(moments) * np.eye(len(moments))
    w = np.linalg.solve(moments, others.sum(axis=0))
    return w / max(float((others @ w).mean()), 1e-9)


def _unit(rows: Floats) -> Floats:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
