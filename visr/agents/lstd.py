"""Successor features of the library's policies, fitted to recorded steps by least squares (LSTD).

psi of a policy pi solves psi(s, a) = chi(s, a, s') + gamma psi(s', pi(s')) in the mean.  The network has one
last layer for all tasks.  Here every task w_k of the library gets its own, W_k, for the policy pi_k that is
greedy in psi(s, a, w_k) . w_k:

    sum_t h_t (h_t - gamma h'_t)^T W_k = sum_t h_t chi_t^T,  psi_k(s, a) = h(s, a)^T W_k

with h(s, a) = [relu(U(s, a) + V(w_k)), 1] and h' = h(s', pi_k(s')).  A small penalty keeps W_k near the
network's last layer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from visr.networks.factored_successor import FactoredSuccessorFeatures
from visr.types import Transitions

_PENALTY = 1e-6
"""Relative to the mean second moment of h."""
_BATCH = 2_048


class _StepInputs(NamedTuple):
    """N recorded steps as psi reads them, whatever the task."""

    taken: Tensor
    """[N, width], U(s, a)"""
    following: Tensor
    """[N, actions, width], U(s', .)"""
    chi: Tensor
    """[N, d]"""
    discount: Tensor
    """[N, 1], 0 where the episode ended"""
    repeats: Tensor
    """[N, 1], how often each step was recorded"""


@torch.no_grad()
def fitted_readouts(
    psi: FactoredSuccessorFeatures, library: Tensor, steps: Transitions, chi: Tensor, gamma: float
) -> Tensor:
    """W_k of every task: library [L, d], steps with features chi [N, d] -> [L, width + 1, d]."""
    read = _read(psi, *distinct(steps, chi), gamma)
    return torch.stack([_readout(psi, w, read) for w in library])


def _read(
    psi: FactoredSuccessorFeatures, steps: Transitions, chi: Tensor, count: Tensor, gamma: float
) -> _StepInputs:
    here, action, after = steps.observation, steps.action, steps.next_observation
    assert here is not None
    assert action is not None
    before = torch.cat([psi.of_actions(psi.first_step(seen)) for seen in here.split(_BATCH)])
    following = torch.cat([psi.of_actions(psi.first_step(seen)) for seen in after.split(_BATCH)])
    goes_on = torch.ones(len(chi)) if steps.terminated is None else (~steps.terminated).float()
    taken = before[torch.arange(len(before)), action]
    return _StepInputs(taken, following, chi, gamma * goes_on[:, None], count[:, None])


def _readout(psi: FactoredSuccessorFeatures, w: Tensor, steps: _StepInputs) -> Tensor:
    """W_k, [width + 1, d]: the network's last layer and its correction."""
    shared = torch.cat([psi.readout.weight.T, psi.readout.bias[None]]) * psi.scale
    of_task = psi.of_tasks(w)
    now = _with_one((steps.taken + of_task).relu())
    joined = (steps.following + of_task).relu_()
    greedy = (joined @ (psi.readout.weight.T @ w)).argmax(dim=1)
    later = _with_one(joined[torch.arange(len(joined)), greedy])
    change, weighted = now - steps.discount * later, now * steps.repeats
    moments = (weighted.T @ change).double()
    moments.diagonal().add_(_PENALTY * weighted.mul(now).sum(dim=0).mean().double())
    error = steps.chi - change @ shared
    return shared + torch.linalg.solve(moments, (weighted.T @ error).double()).float()


def _with_one(rows: Tensor) -> Tensor:
    return torch.cat([rows, torch.ones(len(rows), 1)], dim=1)


def distinct(steps: Transitions, chi: Tensor) -> tuple[Transitions, Tensor, Tensor]:
    """Each step once, and how often it was there [N]; only numbered states repeat."""
    seen, reached, action = steps.observation, steps.next_observation, steps.action
    assert seen is not None
    assert action is not None
    if seen.dim() > 1 or seen.is_floating_point():
        return steps, chi, torch.ones(len(chi))
    ended = torch.zeros_like(action) if steps.terminated is None else steps.terminated.long()
    rows = torch.stack([seen, action, reached, ended], dim=1)
    kinds, which, count = rows.unique(dim=0, return_inverse=True, return_counts=True)
    first = torch.full((len(kinds),), len(rows)).scatter_reduce(
        0, which, torch.arange(len(rows)), "amin"
    )
    kept = Transitions(kinds[:, 2], kinds[:, 0], kinds[:, 1], kinds[:, 3].bool())
    return kept, chi[first], count.float()
