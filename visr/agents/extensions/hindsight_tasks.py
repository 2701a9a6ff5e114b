"""Tasks that reward visited states: the w that regression would infer from such a reward.

In many dimensions a uniform w is nearly orthogonal to every phi: psi seldom learns the w of "be here".
Q-learning is off-policy, so psi can learn any task from any unroll: here some unrolls teach it a task of
this kind instead of the w that was pursued. phi still learns from the latter.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn

from visr.agents.visr import greedy_actions
from visr.ops import derived_seed, sphere
from visr.types import BY_UNROLL, Unroll

_RIDGES = (0.01, 1.0)
"""The range of ridge penalties, log-uniform: from nearly least squares to nearly the plain correlation."""
_MOST_SEGMENTS = 8
"""The most segments of steps that one task rewards."""


class SeededGenerators(nn.Module):
    """Random generators whose k-th depends on a seed and on k only, so that a checkpoint can hold both."""

    seed: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seed", torch.randint(2**62, ()))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def next(self) -> Generator:
        """The next generator."""
        seed = derived_seed(int(self.seed), int(self.count))
        self.count += 1
        return torch.Generator().manual_seed(seed)


def split_unroll(unroll: Unroll, length: int) -> Unroll:
    """The same steps as shorter unrolls: [T, B] -> [length, T B / length]; T is a multiple of `length`.

    An LSTM's memory is stored for the start of the whole unroll only, so that it must not be split.
    """
    count = len(unroll.action) // length
    if count == 1:
        return unroll
    starts = split_steps(unroll.observation[:-1], length)
    ends = unroll.observation[length::length].flatten(0, 1).unsqueeze(0)
    return Unroll(
        torch.cat([starts, ends]),
        *(split_steps(x, length) for x in unroll[1 : -len(BY_UNROLL)]),
        w=unroll.w.repeat(count, 1),
        previous_action=unroll.previous_actions[:-1:length].flatten(),
        memory=unroll.memory.repeat(count, 1),
    )


def split_steps(x: Tensor, length: int) -> Tensor:
    """[T, B, ...] -> [length, T B / length, ...]: first the start of every unroll, then what follows."""
    return x.unflatten(0, (-1, length)).transpose(0, 1).flatten(1, 2)


@torch.no_grad()
def cut_off_policy(unroll: Unroll, psi_next: Tensor, off_policy: Tensor) -> Unroll:
    """End returns before the first action that w's policy would not choose (Watkins).

    off_policy [B] marks the unrolls whose actions were chosen for another task than their w.
    """
    greedy = greedy_actions(psi_next, unroll.w)
    differs = (greedy[1:-1] != unroll.action[1:]) & off_policy
    cut = unroll.truncated
    return unroll._replace(truncated=torch.cat([cut[:-1] | differs, cut[-1:]]))


@torch.no_grad()
def replace_tasks(w: Tensor, phi: Tensor, mix: float, rng: Generator) -> tuple[Tensor, Tensor]:
    """Replace a share `mix` of w [B, d] by tasks of phi [T, B, d]; and a mask [B] of those replaced."""
    replaced = (torch.rand(len(w), generator=rng) < mix).to(w.device)
    return torch.where(replaced.unsqueeze(-1), tasks(phi, len(w), rng), w), replaced


def tasks(phi: Tensor, count: int, rng: Generator) -> Tensor:
    """w ~ (cov phi + ridge)^-1 cov(phi, r), with r = 1 on one or a few segments of unrolls: [count, d].

    A segment of one step rewards a goal; a long one rewards a region, as consecutive states are close.
    """
    d = phi.shape[-1]
    centred = phi - phi.mean(dim=(0, 1))
    correlation = _segments(centred, count, rng)
    flat = centred.flatten(0, 1)
    covariance = flat.T @ flat / len(flat)
    low, high = map(math.log, _RIDGES)
    ridge = math.exp(low + (high - low) * float(torch.rand((), generator=rng)))
    energy = phi.square().sum(dim=-1).mean() / d
    penalised = covariance + ridge * energy * torch.eye(d, device=phi.device)
    return sphere.normalise(torch.linalg.solve(penalised, correlation.T).T)


def _segments(phi: Tensor, count: int, rng: Generator) -> Tensor:
    """Sums of phi [T, B, d] over one segment of steps (for half of them) or up to eight: [count, d]

    Lengths are log-uniform, places uniform.
    """
    length, batch = phi.shape[:2]
    sums = torch.cat([torch.zeros_like(phi[:1]), phi.cumsum(dim=0)])
    share = torch.rand(3, _MOST_SEGMENTS, count, generator=rng)
    size = ((length + 1.0) ** share[0]).long().clamp(max=length)
    start = (share[1] * (length - size + 1)).long()
    unroll = (share[2] * batch).long()
    segments = sums[start + size, unroll] - sums[start, unroll]
    number = 2 * _MOST_SEGMENTS * torch.rand(count, generator=rng) - _MOST_SEGMENTS
    counted = torch.arange(_MOST_SEGMENTS).unsqueeze(1) <= number.long().clamp(min=0)
    return (segments * counted.unsqueeze(-1).to(phi.device)).sum(dim=0)
