"""Tasks that a user may ask for: what regression would answer to a reward on states just visited.

Uniform w on a sphere of many dimensions are nearly at right angles to every phi, so psi seldom practises the
w of "be here". One-step targets are off-policy, so any unroll can teach any task: some unrolls are
taught to psi under a task of this kind instead of the one they pursued. phi still infers the latter.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from visr.agents.draws import Draws
from visr.ops import sphere
from visr.types import BY_UNROLL, Unroll

_RIDGES = (0.01, 1.0)
"""Between these, evenly in the logarithm: from nearly least squares to nearly the plain correlation."""
_MOST = 8
"""Stretches that one task rewards."""


def pieces(unroll: Unroll, length: int) -> Unroll:
    """The same steps as more and shorter unrolls, each taught under a task of its own.

    [T, B] -> [length, T B / length]. T is a multiple of `length`; T itself changes nothing, any other wants
    networks without a memory, which is known at an unroll's start alone.
    """
    count = len(unroll.action) // length
    if count == 1:
        return unroll
    begun = steps(unroll.observation[:-1], length)
    ends = unroll.observation[length::length].flatten(0, 1).unsqueeze(0)
    return Unroll(
        torch.cat([begun, ends]),
        *(steps(x, length) for x in unroll[1 : -len(BY_UNROLL)]),
        w=unroll.w.repeat(count, 1),
        previous_action=unroll.previous_actions[:-1:length].flatten(),
        memory=unroll.memory.repeat(count, 1),
    )


def steps(x: Tensor, length: int) -> Tensor:
    """[T, B, ...] -> [length, T B / length, ...]: pieces in order of time, unrolls side by side."""
    return x.unflatten(0, (-1, length)).transpose(0, 1).flatten(1, 2)


@torch.no_grad()
def relabelled(w: Tensor, phi: Tensor, mix: float, draws: Draws) -> tuple[Tensor, Tensor]:
    """w [B, d] with a share `mix` of its rows replaced by tasks of phi [T, B, d], and which ones [B]."""
    random = draws.next()
    replaced = (torch.rand(len(w), generator=random) < mix).to(w.device)
    return torch.where(replaced.unsqueeze(-1), tasks(phi, len(w), random), w), replaced


def tasks(phi: Tensor, count: int, random: Generator) -> Tensor:
    """w ~ (cov phi + ridge)^-1 cov(phi, r), r = 1 on one or a few stretches of unrolls: [count, d].

    A stretch of one step is a goal, a long one a region: steps that follow one another are near.
    """
    d = phi.shape[-1]
    centred = phi - phi.mean(dim=(0, 1))
    together = _stretches(centred, count, random)
    flat = centred.flatten(0, 1)
    moments = flat.T @ flat / len(flat)
    low, high = map(math.log, _RIDGES)
    ridge = math.exp(low + (high - low) * float(torch.rand((), generator=random)))
    energy = phi.square().sum(dim=-1).mean() / d
    penalised = moments + ridge * energy * torch.eye(d, device=phi.device)
    return sphere.normalise(torch.linalg.solve(penalised, together.T).T)


def _stretches(phi: Tensor, count: int, random: Generator) -> Tensor:
    """Sums of phi [T, B, d] over one stretch of time (half of them) or up to eight: [count, d]

    Lengths are even in the logarithm, places uniform.
    """
    length, batch = phi.shape[:2]
    sums = torch.cat([torch.zeros_like(phi[:1]), phi.cumsum(dim=0)])
    share = torch.rand(3, _MOST, count, generator=random)
    size = ((length + 1.0) ** share[0]).long().clamp(max=length)
    start = (share[1] * (length - size + 1)).long()
    unroll = (share[2] * batch).long()
    stretches = sums[start + size, unroll] - sums[start, unroll]
    number = (2 * _MOST * torch.rand(count, generator=random) - _MOST).long().clamp(min=0)
    counted = torch.arange(_MOST).unsqueeze(1) <= number
    return (stretches * counted.unsqueeze(-1).to(phi.device)).sum(dim=0)
