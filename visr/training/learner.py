"""Learner: Adam on the agent's losses, and the queue of unrolls that feeds it."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from visr.agents.base import Agent, Losses
from visr.networks import conv_torsos
from visr.ops.adam import Adam
from visr.types import BY_UNROLL, Unroll


class Reducer(Protocol):
    """Sums over learners that hold the same weights and take different parts of the same batches."""

    def sum_count(self, count: Tensor) -> Tensor:
        """The sum of all learners' counts."""
        ...

    def sum_gradients(self, gradients: list[Tensor], metrics: dict[str, Tensor]) -> None:
        """Replace gradients and metrics by their sums over all learners, in place."""
        ...


class Learner:
    """Adam with one parameter group each for psi, for its cumulant and for a bonus."""

    def __init__(
        self,
        agent: Agent,
        total_updates: int,
        phi_updates: int = 0,
        bonus_updates: int = 0,
        micro_batch: int = 0,
        all_reduce: Reducer | None = None,
    ) -> None:
        self.agent, self.num_updates = agent, 0
        self._micro_batch, self._device = micro_batch, agent.device
        self.total_updates, self._phi_updates = total_updates, phi_updates
        self._bonus_updates, self._all_reduce = bonus_updates, all_reduce
        self._optimiser = Adam(_parameter_groups(agent))

    def update(self, unroll: Unroll) -> dict[str, Tensor]:
        """One gradient step on all of the agent's losses."""
        self._optimiser.zero_grad()
        self.agent.set_bonus_share(_share_left(self.num_updates, self._bonus_updates))
        metrics = self._sum_gradients(unroll)
        self._set_learning_rates()
        self._optimiser.step()
        self.num_updates += 1
        if self.num_updates % self.agent.config.target_period == 0:
            self.agent.refresh_target()
        return metrics

    def _sum_gradients(self, unroll: Unroll) -> dict[str, Tensor]:
        """Gradients of the batch's mean losses, a few unrolls at a time: many images outgrow the cache."""
        size = min(self._micro_batch or unroll.num_unrolls, unroll.num_unrolls)
        if size == unroll.num_unrolls and self._all_reduce is None:
            losses = self._losses(unroll)
            losses.total.backward()
            return losses.metrics
        metrics: dict[str, Tensor] = {}
        num_steps = (~unroll.is_reset).sum()
        if self._all_reduce:
            num_steps = self._all_reduce.sum_count(num_steps)
        num_steps = num_steps.clamp(min=1)
        for start in range(0, unroll.num_unrolls, size):
            part = unroll.part(start, start + size)
            share = float((~part.is_reset).sum() / num_steps)
            losses = self._losses(part)
            (losses.total * share).backward()
            for name, value in losses.metrics.items():
                metrics[name] = metrics.get(name, 0) + value * share
        if self._all_reduce:
            gradients = [p.grad for p in self.agent.parameters() if p.grad is not None]
            self._all_reduce.sum_gradients(gradients, metrics)
        return metrics

    def _losses(self, unroll: Unroll) -> Losses:
        unroll = unroll.to(self._device)
        seen = conv_torsos.prepared(self.agent.psi, unroll.observation)
        return self.agent.losses(unroll._replace(observation=seen))

    def _set_learning_rates(self) -> None:
        decays = self.agent.config.learning_rate_decay == "linear"
        share = _share_left(self.num_updates, self.total_updates) if decays else 1.0
        phi_share = min(share, _share_left(self.num_updates, self._phi_updates))
        for group in self._optimiser.param_groups:
            group["lr"] = group["initial_lr"] * (phi_share if group["rests"] else share)

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later updates depend on, by name."""
        tensors = {f"agent.{k}": v for k, v in self.agent.state_dict().items()}
        return tensors | {f"adam.{k}": v for k, v in self._optimiser.moments().items()}

    def load_state(self, tensors: dict[str, Tensor], num_updates: int) -> None:
        self.num_updates = num_updates
        self.agent.load_state_dict(within(tensors, "agent."))
        self._optimiser.load_moments(within(tensors, "adam."))


class BatchQueue:
    """Full batches in order of arrival; of `ranks` learners, each takes its part of every batch."""

    def __init__(self, learner: Learner, batch_size: int, rank: int = 0, ranks: int = 1) -> None:
        self._learner, self._batch_size = learner, batch_size
        self._share = batch_size // ranks
        self._offset = rank * self._share
        self._waiting: Unroll | None = None

    @property
    def num_waiting(self) -> int:
        """Unrolls that no update has used yet."""
        return 0 if self._waiting is None else self._waiting.num_unrolls

    def add(self, unrolls: list[Unroll]) -> None:
        """Append to the queue."""
        waiting = [] if self._waiting is None else [self._waiting]
        if waiting or unrolls:
            self._waiting = concatenate([*waiting, *unrolls])

    def learn(self) -> list[dict[str, Tensor]]:
        """Update on every full batch, up to the run's last update; keep the remaining unrolls."""
        if self._waiting is None:
            return []
        metrics, size, start = [], self._batch_size, 0
        left = self._learner.total_updates - self._learner.num_updates
        while start + size <= self._waiting.num_unrolls and len(metrics) < left:
            begin = start + self._offset
            metrics.append(self._learner.update(self._waiting.part(begin, begin + self._share)))
            start += size
        rest = self._waiting.part(start, self._waiting.num_unrolls)
        self._waiting = rest if rest.num_unrolls else None
        return metrics

    def state(self) -> dict[str, Tensor]:
        """The waiting unrolls, by name."""
        if self._waiting is None:
            return {}
        return {f"waiting.{k}": v for k, v in self._waiting._asdict().items()}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        waiting = within(tensors, "waiting.")
        self._waiting = Unroll(**waiting) if waiting else None


def concatenate(unrolls: list[Unroll]) -> Unroll:
    """Several batches of unrolls as one, in order."""
    fields = zip(Unroll._fields, zip(*unrolls, strict=True), strict=True)
    return Unroll(**{k: torch.cat(x, dim=0 if k in BY_UNROLL else 1) for k, x in fields})


def _share_left(num_updates: int, total: int) -> float:
    """The share of `total` updates that is left; 1 if `total` is 0, which means no end."""
    return max(0.0, 1 - num_updates / total) if total else 1.0


def _parameter_groups(agent: Agent) -> list[dict[str, Any]]:
    config = agent.config
    psi = (config.psi_learning_rate, config.psi_adam_epsilon, False)
    phi = (config.phi_learning_rate, config.phi_adam_epsilon, True)
    settings = {"psi": psi, "phi": phi, "bonus": (*phi[:2], False)}
    groups = []
    for name, parameters in agent.parameter_groups().items():
        rate, epsilon, rests = settings[name]
        if parameters:
            group = {"lr": rate, "initial_lr": rate, "eps": epsilon, "rests": rests}
            groups.append({"params": parameters, **group})
    return groups


Kind = TypeVar("Kind")


def within(entries: dict[str, Kind], prefix: str) -> dict[str, Kind]:
    """The entries whose names begin with `prefix`, with the prefix removed."""
    return {k.removeprefix(prefix): v for k, v in entries.items() if k.startswith(prefix)}
