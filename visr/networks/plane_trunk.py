"""Trunk for binary planes of objects: where each object is, on the board and relative to the agent."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from visr.networks.factored_successor import Trunk
from visr.types import Transitions

_FIRST, _SECOND = 256, 128
_MOST_CELLS = 32 * 32


def are_planes(space: spaces.Space) -> bool:
    """Whether observations are small binary planes: [C, H, W] in bytes that are 0 or 1."""
    return (
        isinstance(space, spaces.Box)
        and len(space.shape) == 3
        and space.dtype == np.uint8
        and int(space.high.max()) == 1
        and space.shape[1] * space.shape[2] <= _MOST_CELLS
    )


class PlaneTrunk(Trunk):
    """The sum of one row per object on the board, and of one per object relative to the agent; then an MLP.

    The agent's plane is found by `find_agent` from recorded steps. Without one, the second kind is absent.
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.size = _SECOND
        self._planes, self._height, self._width = shape
        self._board = self._planes * self._height * self._width
        self._offsets = (2 * self._height - 1) * (2 * self._width - 1)
        self.table = nn.EmbeddingBag(self._board + self._planes * self._offsets, _FIRST, mode="sum")
        nn.init.uniform_(self.table.weight, -0.12, 0.12)
        self.bias = nn.Parameter(torch.zeros(_FIRST))
        self.body = nn.Sequential(nn.ReLU(), nn.Linear(_FIRST, _SECOND), nn.ReLU())
        self.agent_plane: Tensor
        self.register_buffer("agent_plane", torch.tensor(-1))

    def fit(self, steps: Transitions) -> None:
        """Find the agent's plane."""
        assert steps.observation is not None
        assert steps.action is not None
        found = find_agent(steps.observation, steps.action, steps.next_observation)
        self.agent_plane.fill_(found)

    def check(self) -> None:
        """Refuse, with a ValueError, a number that is no plane."""
        if not -1 <= int(self.agent_plane) < self._planes:
            raise ValueError("the agent's plane does not exist")

    def forward(self, observation: Tensor) -> Tensor:
        """[N, C, H, W] uint8 -> [N, size]"""
        if torch.compiler.is_exporting():  # `_rows` has a length that depends on the objects
            return self.body(self._dense_sum(observation.flatten(1)) + self.bias)
        rows, starts = self._rows(observation)
        summed = functional.embedding_bag(rows, self.table.weight, starts, mode="sum")
        return self.body(summed + self.bias)

    def _rows(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of the table for every object of a batch, and where each observation's rows start."""
        flat = observation.flatten(1)
        example, cell = flat.nonzero(as_tuple=True)
        counts = torch.bincount(example, minlength=len(flat))
        starts = counts.cumsum(0) - counts
        plane = int(self.agent_plane)
        if plane < 0:
            return cell, starts
        area, width = self._height * self._width, self._width
        agent = flat[:, plane * area : (plane + 1) * area].argmax(dim=1)
        place = cell % area
        down = place // width - (agent // width)[example] + self._height - 1
        right = place % width - (agent % width)[example] + width - 1
        relative = (cell // area) * self._offsets + down * (2 * width - 1) + right
        # an observation's rows are those of its cells and then as many relative ones
        index = torch.arange(len(cell)) + starts[example]
        rows = cell.new_empty(2 * len(cell))
        rows[index] = cell
        rows[index + counts[example]] = self._board + relative
        return rows, 2 * starts

    def _dense_sum(self, flat: Tensor) -> Tensor:
        """The sums of `forward` as matrix products: [N, C H W] -> [N, 256]"""
        height, width = self._height, self._width
        planes = flat.unflatten(1, (self._planes, height * width))
        agent = planes.index_select(1, self.agent_plane.clamp(min=0)[None])[:, 0].argmax(dim=1)
        down = torch.arange(1 - height, height)[:, None].expand(-1, 2 * width - 1).flatten()
        right = torch.arange(1 - width, width).repeat(2 * height - 1)
        row, column = (agent // width)[:, None] + down, (agent % width)[:, None] + right  # [N, K]
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        cell = torch.where(inside, row * width + column, 0).unsqueeze(1)
        seen = planes.gather(2, cell.expand(-1, self._planes, -1)) * inside.unsqueeze(1)
        board, relative = self.table.weight.tensor_split([self._board])
        return flat.float() @ board + (seen.flatten(1) * (self.agent_plane >= 0)).float() @ relative


def find_agent(before: Tensor, action: Tensor, after: Tensor) -> int:
    """The plane whose single object moves as the actions say; -1 if there is none.

    Among planes with exactly one object in 95 % of the steps: the largest mutual information between the
    object's displacement and the action. before, after [N, C, H, W]; action [N].
    """
    width = before.shape[-1]
    flat, later = before.flatten(2), after.flatten(2)
    single = (flat.sum(dim=-1) == 1) & (later.sum(dim=-1) == 1)
    best, found = _LEAST_INFORMATION, -1
    for plane in torch.nonzero(single.float().mean(dim=0) >= 0.95)[:, 0].tolist():
        known = single[:, plane]
        start, end = flat[known, plane].argmax(dim=-1), later[known, plane].argmax(dim=-1)
        down = (end // width - start // width).clamp(-2, 2) + 2
        right = (end % width - start % width).clamp(-2, 2) + 2
        information = _mutual_information(down * 5 + right, action[known])
        if information > best:
            best, found = information, plane
    return found


_LEAST_INFORMATION = 0.02


def _mutual_information(x: Tensor, y: Tensor) -> float:
    """Of two samples of small whole numbers, in nats."""
    joint = torch.zeros(int(x.max()) + 1, int(y.max()) + 1, dtype=torch.float64)
    joint.index_put_((x, y), torch.ones(len(x), dtype=torch.float64), accumulate=True)
    joint /= joint.sum()
    independent = joint.sum(dim=1, keepdim=True) * joint.sum(dim=0, keepdim=True)
    seen = joint > 0
    return float((joint[seen] * (joint[seen] / independent[seen]).log()).sum())
