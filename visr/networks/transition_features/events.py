"""Events between s and s' on binary planes of objects: gains, losses, contacts, the end."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from visr.networks.transition_features.base import TransitionFeatures, ended, of_unroll
from visr.types import Transitions, Unroll

_LARGEST_COUNT = 4
_LEAST_SEEN, _LEAST_SEEN_RARE = 40, 10
_MOST_ALIKE = 0.95
_LEAST_SCALE = 0.02
_TAIL = 0.2
"""Share of an unroll whose returns are cut short and do not count for the scale of an event."""


class PlaneEvents(TransitionFeatures):
    """Counts of events, each divided by the deviation of its discounted return; the last is the end.

    Of plane c: objects gained and lost in all, objects that vanished (none in the 3 x 3 cells afterwards)
    and appeared. Of planes c and p: c vanished beside p; c's cell was emptied and newly filled by p.
    `fit` keeps the events that were seen, the rarest first, without those that repeat another one.

    `rare`: events that were seen less often, too, and one more: c and p vanished together, at most two cells
    apart, because each can move one cell before they meet.
    """

    counts_events = True

    def __init__(
        self, shape: tuple[int, int, int], num_features: int, gamma: float, rare: bool = False
    ) -> None:
        super().__init__()
        self._rare = rare
        self.num_features, self._planes, self._gamma = num_features, shape[0], gamma
        self._end_event = 4 * self._planes + 2 * self._planes * (self._planes - 1)
        self.end = num_features - 1
        self.event: Tensor
        self.scale: Tensor
        self.register_buffer("event", torch.full((num_features,), -1))
        self.register_buffer("scale", torch.ones(num_features))

    def check(self) -> None:
        """Refuse, with a ValueError, numbers that are no event of these planes."""
        possible = self._end_event + 1 + self._rare * self._planes * (self._planes - 1) // 2
        if not bool(((self.event >= -1) & (self.event < possible)).all()):
            raise ValueError("an event does not exist")

    @property
    def num_used(self) -> int:
        """Features that stand for an event."""
        return max(int((self.event >= 0).sum()), 1)

    def typical_return(self, gamma: float) -> float:
        """1: events are divided by the deviation of their returns."""
        return 1.0

    def fit(self, recorded: Unroll) -> None:
        """Choose and scale the events."""
        kept = ~recorded.is_reset
        counts = self.counts(of_unroll(recorded))
        steps = torch.zeros(*kept.shape, counts.shape[1])
        steps[kept] = counts
        deviation = self._deviation(steps, (recorded.terminated | recorded.truncated))
        seen = (counts > 0).sum(dim=0)
        seen[self._end_event] = 0  # it is always the last feature
        is_wanted = seen >= (_LEAST_SEEN_RARE if self._rare else _LEAST_SEEN)
        order = torch.argsort(seen, stable=True)
        rarest = order[(is_wanted & (deviation >= 1e-3))[order]].tolist()
        chosen = _unlike(counts, rarest, self.num_features - 1)
        self.event.fill_(-1)
        self.event[: len(chosen)] = torch.tensor(chosen, dtype=torch.int64)
        self.event[-1] = self._end_event
        self.scale.copy_(deviation[self.event.clamp(min=0)].clamp(min=_LEAST_SCALE))

    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]; features without an event are 0."""
        return self.of_counts(self.used_counts(steps))

    def used_counts(self, steps: Transitions) -> Tensor:
        """Counts of the events that features stand for, in bytes: [N, d'], d' <= d."""
        return self.counts(steps)[:, self.event[self.event >= 0]].to(torch.uint8)

    def of_counts(self, counts: Tensor) -> Tensor:
        """The features of `used_counts`: [N, d'] -> [N, d]"""
        used = self.event >= 0
        features = torch.zeros(len(counts), self.num_features)
        features[:, used] = counts / self.scale[used]
        return features

    def counts(self, steps: Transitions) -> Tensor:
        """Every possible event, at most 4 of each: [N, 4 C + 2 C (C - 1) + 1]; `rare`: C (C - 1) / 2 more."""
        seen = steps.next_observation if steps.observation is None else steps.observation
        before, after = seen.to(torch.uint8), steps.next_observation.to(torch.uint8)
        planes = self._planes
        near_before, near_after = _spread(before).flatten(2), _spread(after).flatten(2)
        before, after = before.flatten(2), after.flatten(2)
        gone = before & (near_after ^ 1)
        vanished, appeared = gone.float(), (after & (near_before ^ 1)).float()
        emptied, filled = (before & (after ^ 1)).float(), (after & (before ^ 1)).float()
        change = filled.sum(dim=-1) - emptied.sum(dim=-1)
        beside = torch.bmm(vanished, near_before.float().transpose(1, 2))
        replaced = torch.bmm(emptied, filled.transpose(1, 2))
        pairs = ~torch.eye(planes, dtype=torch.bool, device=before.device)
        parts = [
            change.clamp(min=0),
            (-change).clamp(min=0),
            vanished.sum(dim=-1),
            appeared.sum(dim=-1),
            beside[:, pairs],
            replaced[:, pairs],
            ended(steps)[:, None],
        ]
        if self._rare:
            near_gone = _spread(_spread(gone.view(seen.shape))).flatten(2).float()
            parts.append(torch.bmm(vanished, near_gone.transpose(1, 2))[:, pairs.triu()])
        return torch.cat(parts, dim=1).clamp(max=_LARGEST_COUNT)

    def names(self) -> list[str]:
        """Each event in words; planes are numbered as the environment orders them."""
        planes = range(self._planes)
        pairs = [(c, p) for c in planes for p in planes if p != c]
        words = [f"plane {c} gained" for c in planes] + [f"plane {c} lost" for c in planes]
        words += [f"plane {c} vanished" for c in planes] + [f"plane {c} appeared" for c in planes]
        words += [f"plane {c} vanished beside plane {p}" for c, p in pairs]
        words += [f"plane {c} replaced by plane {p}" for c, p in pairs]
        words.append("end of the episode")
        words += [f"plane {c} and plane {p} vanished together" for c, p in pairs if c < p]
        return [words[k] if k >= 0 else "" for k in self.event.tolist()]

    def _deviation(self, steps: Tensor, cut: Tensor) -> Tensor:
        """The standard deviation of each event's discounted return; steps [T, B, K], cut [T, B]."""
        following, known = torch.zeros_like(steps[0]), []
        for t in range(len(steps) - 1, -1, -1):
            following = steps[t] + self._gamma * following * (~cut[t]).float()[:, None]
            if t < (1 - _TAIL) * len(steps):
                known.append(following)
        return torch.stack(known).flatten(0, 1).std(dim=0)


def _spread(planes: Tensor) -> Tensor:
    """1 where an object is in the 3 x 3 cells around: [N, C, H, W] -> the same (faster than max_pool2d)."""
    wide = planes.clone()
    torch.maximum(wide[..., 1:], planes[..., :-1], out=wide[..., 1:])
    torch.maximum(wide[..., :-1], planes[..., 1:], out=wide[..., :-1])
    high = wide.clone()
    torch.maximum(high[..., 1:, :], wide[..., :-1, :], out=high[..., 1:, :])
    torch.maximum(high[..., :-1, :], wide[..., 1:, :], out=high[..., :-1, :])
    return high


def _unlike(counts: Tensor, events: list[int], most: int) -> list[int]:
    """The first of these events, without those that nearly repeat an earlier one."""
    centred = counts - counts.mean(dim=0)
    scaled = (centred / centred.std(dim=0).clamp(min=1e-6)).numpy()
    kept: list[int] = []
    for k in events:
        if len(kept) == most:
            break
        alike = np.abs(scaled[:, kept].T @ scaled[:, k]) / len(scaled)
        if not kept or alike.max() <= _MOST_ALIKE:
            kept.append(k)
    return kept
