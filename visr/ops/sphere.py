"""The unit sphere in R^d: normalise, uniform draws, von Mises-Fisher (vMF) draws."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional


def normalise(x: Tensor, eps: float = 1e-12) -> Tensor:
    """x / |x| along the last axis; the zero vector stays zero."""
    return functional.normalize(x, dim=-1, eps=eps)


def uniform(*shape: int, d: int, generator: Generator | None = None) -> Tensor:
    """Unit vectors [*shape, d], uniform on the sphere."""
    device = generator.device if generator else None
    return normalise(torch.randn(*shape, d, generator=generator, device=device))


@torch.no_grad()
def vmf_sample(
    mu: Tensor, kappa: float, num_samples: int, generator: Generator | None = None
) -> Tensor:
    """Draws from the vMF density prop. to exp(kappa mu . x) around every unit vector mu.

    mu [..., d], d >= 2 -> [..., num_samples, d]; kappa = 0 is uniform.
    Wood's (1994) rejection sampler; only rejected draws are drawn again.
    """
    if not 0 <= kappa < math.inf:
        raise ValueError(f"kappa = {kappa} is no concentration; it must be finite and at least 0.")
    if mu.shape[-1] < 2:
        raise ValueError(
            f"d = {mu.shape[-1]} is too small; a sphere to draw from needs at least 2."
        )
    # [d, N]: sums over d are much faster along the first axis.
    mus = mu.reshape(-1, mu.shape[-1]).T.contiguous()
    d, num_mus = mus.shape
    x, accepted = _vmf_propose(mus[:, None].expand(d, num_samples, num_mus), kappa, generator)
    x = x.view(d, num_samples * num_mus)
    missing = accepted.logical_not_().flatten().nonzero().squeeze(-1)
    for _ in range(_MOST_ROUNDS):
        if not len(missing):
            break
        again, accepted = _vmf_propose(mus[:, missing % num_mus], kappa, generator)
        x.index_copy_(1, missing, again)
        missing = missing[~accepted]
    else:  # a few rounds accept all draws, but never a NaN
        raise ValueError("mu must be finite unit vectors; no draw around these is accepted.")
    return x.view(d, num_samples, num_mus).permute(2, 1, 0).reshape(*mu.shape[:-1], num_samples, d)


def joined(mu: Tensor, draws: Tensor) -> Tensor:
    """Each mu before its draws by `vmf_sample`: [..., d], [..., S, d] -> [..., 1 + S, d]

    As `torch.cat`, in a third of the time: the draws are transposed in memory, and blocks of them
    are copied faster than single ones.
    """
    count, d = draws.shape[-2:]
    both = mu.new_empty(1 + count, d, mu.numel() // d)
    both[0] = mu.reshape(-1, d).T
    both[1:] = draws.reshape(-1, count, d).permute(1, 2, 0)
    return both.flatten(0, 1).T.contiguous().view(*mu.shape[:-1], 1 + count, d)


_MOST_ROUNDS = 1_000


def _vmf_propose(mu: Tensor, kappa: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """One draw for every mu [d, ...] from Wood's envelope, and whether the vMF density accepts it.

    The envelope's cosine t = mu . x has a density prop. to (1 - t^2)^{(d-3)/2} (1 - b t)^{1-d}.
    A uniform direction u has this density after a Lorentz boost along mu with velocity b; with
    y = mu . u and s = sqrt(1 - b^2)

        t = (b + y) / (1 + b y)        x = (s u + (b + (1 - s) y) mu) / (1 + b y).

    This needs no tangent basis. Wood's b solves kappa (1 - b^2) = (d - 1) b, which turns his test
    kappa (t - b) + (d - 1) log((1 - b t) / (1 - b^2)) >= log U into
    (d - 1) (1 - h + log h) >= log U with h = 1 / (1 + b y), in which no term grows with kappa.
    """
    d = len(mu)
    b = 2 * kappa / (d - 1 + math.hypot(2 * kappa, d - 1))
    s = math.sqrt((1 - b) * (1 + b))
    x = torch.randn(mu.shape, generator=generator, dtype=mu.dtype, device=mu.device)  # u = x / |x|
    norm = x.square().sum(dim=0).sqrt_()
    y = (x * mu).sum(dim=0).div_(norm)
    h = (b * y).add_(1).reciprocal_()
    along = (b + (1 - s) * y).mul_(h)
    x.mul_(s * h / norm).addcmul_(along, mu)
    log_u = torch.rand(y.shape, generator=generator, dtype=mu.dtype, device=mu.device).log_()
    accepted = (h.log() - h).add_(1).mul_(d - 1) >= log_u  # NaN is never accepted
    return x, accepted
