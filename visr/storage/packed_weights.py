"""Weights of a packed model: in full, in half precision, or as rows of 8-bit numbers with a scale each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

Precision = Literal["float32", "float16", "int8"]
_SCALE = ".scale_of_rows"
"""Follows the name of a tensor of 8-bit rows: weight = scale * number."""
_LEAST_ROWS = 10_000
"""Smaller tensors stay in half precision."""


def stored(tensors: dict[str, Tensor], precision: Precision) -> dict[str, Tensor]:
    """The tensors to write; whole numbers stay as they are. A ValueError names what does not fit."""
    import torch

    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        weight = tensor.detach().cpu().contiguous()
        is_large = weight.ndim in (2, 3) and weight.numel() >= _LEAST_ROWS
        if precision == "float32" or weight.dtype != torch.float32:
            found[name] = weight
        elif precision == "int8" and is_large:
            scale = weight.abs().amax(dim=-1, keepdim=True).clamp(min=1e-30) / 127
            found[name] = (weight / scale).round().to(torch.int8)
            found[name + _SCALE] = scale
        else:
            found[name] = weight.half()
    for name, tensor in found.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(f"{name} does not fit")
    return found


def restored(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `stored`, for anybody's tensors: weights are float32. A ValueError names damage."""
    import torch

    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(f"{name} holds NaN or infinity")
        if name.endswith(_SCALE):
            continue
        weight = tensor.float() if tensor.dtype == torch.float16 else tensor
        if tensor.dtype == torch.int8:
            scale = tensors.get(name + _SCALE)
            if scale is None or scale.shape != (*tensor.shape[:-1], 1):
                raise ValueError(f"{name} has no scale for each row")
            weight = tensor.float() * scale.float()
            if not torch.isfinite(weight).all():
                raise ValueError(f"{name} is too large")
        found[name] = weight
    return found
