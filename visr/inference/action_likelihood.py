"""How likely a trajectory's actions are under the policy of a task, and the search for the likeliest w."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visr.agents.base import Agent
from visr.inference.steps import Floats
from visr.ops import sphere

_MOST_STEPS = 400
"""Steps, evenly spaced, that candidates are compared on."""
_NUM_CANDIDATES = 256
_KAPPAS = (3.0, 30.0, 100.0)
"""Concentrations of the candidates around the best one so far, one round each."""
_INVERSE_TEMPERATURES = (1.0, 3.0, 10.0, 30.0)
"""Of a softmax policy in values of unit deviation; the likeliest one counts."""


@dataclass(frozen=True, eq=False)
class Likeliest:
    """The likeliest of the candidates that the search tried."""

    w: Floats
    error: Floats
    """[d], the deviation over candidates, weighted by their likelihood."""


class ActionLikelihood:
    """Compares tasks by the actions of a trajectory; the policy is that of w alone, without GPI."""

    def __init__(self, agent: Agent, states: NDArray, actions: NDArray[np.int64]) -> None:
        """actions [N] of states [N, ...]; -1 where one is not known."""
        self._agent = agent
        known = np.flatnonzero(actions >= 0)
        some = np.linspace(0, len(known) - 1, min(_MOST_STEPS, len(known))).astype(np.intp)
        with torch.inference_mode():
            self._hidden = agent.psi.first_step(torch.as_tensor(states[known], device=agent.device))
        self._actions, self._some = actions[known], torch.as_tensor(some, device=agent.device)
        self._taken = torch.as_tensor(actions[known[some]], device=agent.device)

    @property
    def num_steps(self) -> int:
        """Steps that tasks are compared on."""
        return len(self._taken)

    @torch.inference_mode()
    def of(self, w: Floats | Tensor) -> float:
        """sum_t log pi(a_t | s_t, w) of a softmax policy in Q(s, a | w), at the likeliest temperature."""
        task = torch.as_tensor(w, dtype=torch.float32)
        values = self._agent.values_of(self._hidden[self._some], task, gpi=False)
        values = values - values.mean(dim=1, keepdim=True)
        values = values / values.std(dim=1).mean().clamp(min=1e-6)
        logs = [torch.log_softmax(beta * values, dim=1) for beta in _INVERSE_TEMPERATURES]
        return float(max(log.gather(1, self._taken[:, None]).sum().cpu() for log in logs))

    @torch.inference_mode()
    def agreement(self, w: Floats) -> float:
        """The share of known actions that are greedy for w."""
        task = torch.as_tensor(w, dtype=torch.float32)
        greedy = self._agent.values_of(self._hidden, task, gpi=False).argmax(dim=1)
        return float((greedy.cpu().numpy() == self._actions).mean())

    @property
    def share_of_most_common(self) -> float:
        """The agreement of the best constant action."""
        return float(np.bincount(self._actions).max() / len(self._actions))

    def search(self, w: Floats, seed: int) -> Likeliest:
        """In rounds: all over the sphere and near w first, then ever closer to the best candidate."""
        rng = torch.Generator().manual_seed(seed)
        best = torch.as_tensor(w, dtype=torch.float32)
        candidates = torch.cat(
            [best[None], sphere.uniform(_NUM_CANDIDATES, d=len(w), generator=rng)]
        )
        scores = np.empty(0)
        for kappa in (*_KAPPAS, None):
            scores = np.array([self.of(one) for one in candidates])
            best = candidates[int(scores.argmax())]
            if kappa is not None:
                near = sphere.vmf_sample(best, kappa, _NUM_CANDIDATES, rng)
                candidates = torch.cat([best[None], near])
        weight = np.exp(scores - scores.max())
        spread = np.square(candidates.numpy() - best.numpy())
        error = np.sqrt(weight @ spread / weight.sum())
        return Likeliest(best.numpy().astype(np.float64), error.astype(np.float64))
