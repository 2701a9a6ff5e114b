"""The Atari experiment's phi and psi: a torso each, an LSTM for psi, one small MLP per cumulant."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from visr.networks.mlp_torsos import initialise, linear
from visr.networks.successor import Features, FoldedReadout, SuccessorFeatures

_TASK_SIZE = 32
_RATE = 0.01
"""Step size of the running mean with `batch`, per batch learnt from."""


class DeepFeatures(Features):
    """phi(s): a torso and a linear layer.

    Images of one game are so alike that their initial features all point the same way. A centre subtracts
    a mean of the torso's output, that of the batch while learning. Elsewhere it is with `latest` the mean
    of the last batch learnt from, and for features that do not learn that of the first one everywhere; with
    `batch`, which older runs have, a running mean.
    """

    def __init__(
        self,
        torso: nn.Module,
        num_features: int,
        centre: Literal["latest", "batch"] | None = None,
        unit: bool = True,
    ) -> None:
        super().__init__(unit)
        self.torso, self.centre = torso, centre
        size: int = torso.size  # pyright: ignore
        self.readout = linear(size, num_features, bias=centre is None)
        self.mean: Tensor | None
        self.register_buffer("mean", None if centre is None else torch.zeros(size))

    def forward(self, observation: Tensor) -> Tensor:
        """observation [..., C, H, W] -> [..., features]"""
        hidden = self.torso(observation)
        if self.mean is not None:
            hidden = hidden - self._centre(hidden)
        return self._scaled(self.readout(hidden))

    def _centre(self, hidden: Tensor) -> Tensor:
        """The mean to subtract; batches with gradients set the one that others use."""
        assert self.mean is not None
        is_fixed = not self.readout.weight.requires_grad and bool(self.mean.any())
        if not torch.is_grad_enabled() or (is_fixed and self.centre == "latest"):
            return self.mean
        latest = hidden.flatten(0, -2).mean(dim=0)
        self.mean.lerp_(latest.detach(), 1.0 if self.centre == "latest" else _RATE)
        return latest


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
        from_inputs = inputs @ self.input.T + self.bias
        keeps = (~starts).to(inputs.dtype).unsqueeze(-1)
        outputs = []
        for from_input, keep in zip(from_inputs, keeps, strict=True):
            gates = torch.addmm(from_input, h * keep, self.recurrent.T)
            input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
            c = forget_gate.sigmoid() * (c * keep) + input_gate.sigmoid() * candidate.tanh()
            h = output_gate.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs), torch.cat([h, c], dim=-1)


class DeepSuccessorFeatures(SuccessorFeatures):
    """psi(s, a, w): torso and last action -> LSTM; w -> an MLP, as in USFA; both -> an MLP per cumulant.

    The first layers of all these MLPs are computed at once, as a layer on the trunk plus one on the task.
    """

    def __init__(
        self,
        torso: nn.Module,
        num_features: int,
        num_actions: int,
        *,
        lstm: bool,
        task_size: int | None = None,
        head_size: int = 256,
    ) -> None:
        super().__init__()
        self.num_actions, self.num_features = num_actions, num_features
        self.head_size = head_size
        self.torso = torso
        size: int = torso.size  # pyright: ignore
        self.core = Lstm(size + num_actions) if lstm else None
        if self.core is not None:
            size, self.memory_size = self.core.size, 2 * self.core.size
        self.task = nn.Sequential(
            linear(task_size or num_features, _TASK_SIZE), nn.ReLU(), linear(_TASK_SIZE, _TASK_SIZE)
        )
        width, fan_in = num_features * head_size, size + _TASK_SIZE
        self.from_trunk = linear(size, width, fan_in=fan_in)
        self.from_task = linear(_TASK_SIZE, width, fan_in=fan_in, bias=False)
        self.readout = nn.Parameter(torch.empty(num_features, head_size, num_actions))
        self.bias = nn.Parameter(torch.zeros(num_features, num_actions))
        initialise(self.readout, head_size)

    def trunk(
        self, observation: Tensor, previous_action: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The torso, then the LSTM with the last action; its memory is cleared where an episode begins."""
        hidden = self.torso(observation)
        if self.core is None:
            return hidden, memory
        action = functional.one_hot(previous_action.clamp(min=0), self.num_actions)
        starts = previous_action < 0
        action = action.masked_fill(starts.unsqueeze(-1), 0).to(hidden.dtype)
        return self.core(torch.cat([hidden, action], dim=-1), starts, memory)

    def heads(self, hidden: Tensor, w: Tensor) -> Tensor:
        units = (self.from_trunk(hidden) + self.from_task(self.task(w))).relu()
        batch = units.shape[:-1]
        units = units.reshape(-1, self.num_features, self.head_size).transpose(0, 1)
        psi = torch.baddbmm(self.bias.unsqueeze(1), units, self.readout)
        return psi.permute(1, 2, 0).reshape(*batch, self.num_actions, self.num_features)

    def fold(self, w: Tensor) -> FoldedReadout:
        w = self.cumulant_weights(w)
        weight = w[:, :, None, None] * self.readout
        return FoldedReadout(weight.flatten(1, 2), w @ self.bias)

    def gpi_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        units = self.from_task(self.task(policies))
        units = units.add_(self.from_trunk(hidden).unsqueeze(1)).relu_()
        return torch.bmm(units, readout.weight).amax(dim=1).add_(readout.bias)
