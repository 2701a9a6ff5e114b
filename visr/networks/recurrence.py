"""An LSTM whose memory is cleared where an episode starts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from visr.networks.torsos import initialise


class Lstm(nn.Module):
    """An LSTM cell with a forget bias of 1; its memory is one vector, [h, c].

    The products with the inputs do not depend on the step before, so they are computed for all T at once.
    """

    def __init__(self, num_inputs: int, size: int = 256) -> None:
        super().__init__()
        self.size = size
        self.input = nn.Parameter(torch.empty(4 * size, num_inputs))
        self.recurrent = nn.Parameter(torch.empty(4 * size, size))
        self.bias = nn.Parameter(torch.zeros(4 * size))
        for weight in (self.input, self.recurrent):
            initialise(weight, num_inputs + size)
        with torch.no_grad():
            self.bias[size : 2 * size] = 1.0

    def forward(self, inputs: Tensor, starts: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """inputs [T, B, in], starts [T, B] bool, memory [B, 2 size] -> [T, B, size], memory after T"""
        h, c = memory.chunk(2, dim=-1)
        driven = inputs @ self.input.T + self.bias
        keeps = (~starts).to(inputs.dtype).unsqueeze(-1)
        outputs = []
        for drive, keep in zip(driven, keeps, strict=True):
            gates = torch.addmm(drive, h * keep, self.recurrent.T)
            enters, forgets, candidate, leaves = gates.chunk(4, dim=-1)
            c = forgets.sigmoid() * (c * keep) + enters.sigmoid() * candidate.tanh()
            h = leaves.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs), torch.cat([h, c], dim=-1)
