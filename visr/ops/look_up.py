"""Rows of a table, by their numbers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def look_up(table: Tensor, rows: Tensor) -> Tensor:
    """`functional.embedding`: table [N, d], rows [...] -> [..., d]

    On a CPU by an operator whose gradient has the same bits in a quarter of the time; on a GPU that
    operator's gradient would not be deterministic.
    """
    if not table.is_cpu or torch.compiler.is_compiling():
        return functional.embedding(rows, table)
    return table.index_select(0, rows.reshape(-1)).view(*rows.shape, table.shape[-1])
