"""n-step returns of scalar or vector cumulants."""

from __future__ import annotations

import torch
from torch import Tensor


def n_step(
    cumulant: Tensor, discount: Tensor, value: Tensor, n: int, cut: Tensor | None = None
) -> Tensor:
    """G_t^n = c_t + discount_t * (V_{t+1} if n = 1 or cut_t or t = T-1, else G_{t+1}^{n-1}).

    cumulant [T, B, *F], discount [T, B], value [T+1, B, *F], cut [T, B] bool -> [T, B, *F]

    discount_t is 0 where the episode ended at t+1 (terminated). cut_t is true where the return must
    bootstrap from V_{t+1} and use no later step (truncated).
    """
    if n < 1:
        raise ValueError(f"n = {n} must be at least 1 step.")
    features = (1,) * (cumulant.ndim - discount.ndim)
    if n == 1:
        return torch.addcmul(cumulant, discount.view(*discount.shape, *features), value[1:])
    last = torch.zeros_like(discount, dtype=torch.bool) if cut is None else cut.clone()
    last[-1] = True
    last, discount = last.view(*last.shape, *features), discount.view(*discount.shape, *features)

    # G_t = base_t + onward_t G_{t+1}; where no G follows, base_t is the one-step return.
    one_step = cumulant + discount * value[1:]
    base = torch.where(last, one_step, cumulant)
    onward = discount.masked_fill(last, 0)
    if n >= len(cumulant):
        return _to_the_end(base, onward)
    g = one_step
    for _ in range(n - 1):
        g = torch.cat([torch.addcmul(base[:-1], onward[:-1], g[1:]), one_step[-1:]])
    return g


def _to_the_end(base: Tensor, onward: Tensor) -> Tensor:
    """G_t = base_t + onward_t G_{t+1}, computed backwards through time."""
    g = [base[-1]]
    for t in reversed(range(len(base) - 1)):
        g.append(torch.addcmul(base[t], onward[t], g[-1]))
    return torch.stack(g[::-1])
