"""Successor features of the library's policies, fitted to recorded steps by least squares (LSTD).

psi of a policy pi solves psi(s, a) = chi(s, a, s') + gamma psi(s', pi(s')) in the mean.  The network has one
last layer for all tasks.  Here every task w_k of the library gets its own, W_k, for the policy pi_k that is
greedy in psi(s, a, w_k) . w_k:

    sum_t h_t (h_t - gamma h'_t)^T W_k = sum_t h_t chi_t^T,  psi_k(s, a) = h(s, a)^T W_k

with h(s, a) = [relu(U(s, a) + V(w_k)), 1] and h' = h(s', pi_k(s')).  A small penalty keeps W_k near the
network's last layer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from visr.networks.factored_successor import FactoredSuccessorFeatures
from visr.types import Transitions

_PENALTY = 1e-6
"""Relative to the mean second moment of h."""
_BATCH = 2_048


@torch.no_grad()
def fitted_readouts(
    psi: FactoredSuccessorFeatures,
    library: Tensor,
    steps: Transitions,
    chi: Tensor,
    gamma: float,
) -> Tensor:
    """W_k of every task: library [L, d], steps with features chi [N, d] -> [L, width + 1, d]."""
    steps, chi, weight = distinct(steps, chi)
    here, after = steps.observation, steps.next_observation
    assert here is not None
    assert steps.action is not None
    taken = torch.cat(
        [
            psi.of_actions(psi.first_step(seen))[torch.arange(len(seen)), action]
            for seen, action in zip(here.split(_BATCH), steps.action.split(_BATCH), strict=True)
        ]
    )
    following = torch.cat([psi.of_actions(psi.first_step(seen)) for seen in after.split(_BATCH)])
    discount = gamma * torch.ones(len(chi), 1)
    if steps.terminated is not None:
        discount *= (~steps.terminated).float()[:, None]
    shared = torch.cat([psi.readout.weight.T, psi.readout.bias[None]]) * psi.scale
    found = [
        shared + _correction(psi, w, taken, following, chi, discount, weight, shared)
        for w in library
    ]
    return torch.stack(found)


def _correction(
    psi: FactoredSuccessorFeatures,
    w: Tensor,
    taken: Tensor,
    following: Tensor,
    chi: Tensor,
    discount: Tensor,
    weight: Tensor,
    shared: Tensor,
) -> Tensor:
    """W_k - the network's layer, [width + 1, d]."""
    of_task = psi.of_tasks(w)
    now = _with_one((taken + of_task).relu())
    joined = (following + of_task).relu_()
    best = (joined @ (psi.readout.weight.T @ w)).argmax(dim=1)
    later = _with_one(joined[torch.arange(len(joined)), best])
    step = now - discount * later
    weighted = now * weight[:, None]
    moments = (weighted.T @ step).double()
    size = weighted.mul(now).sum(dim=0).mean().double()
    moments.diagonal().add_(_PENALTY * size)
    error = chi - step @ shared
    return torch.linalg.solve(moments, (weighted.T @ error).double()).float()


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
