"""Learner: Adam on the agent's losses; update(unroll) -> metrics."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.optim import Adam

from visr.agents.base import Agent
from visr.types import Unroll


class Reducer(Protocol):
    """Sums over learners that hold the same weights and take different parts of the same batches."""

    def sum_count(self, count: Tensor) -> Tensor:
        """The sum of all learners' counts."""
        ...

    def sum_gradients(self, gradients: list[Tensor], metrics: dict[str, Tensor]) -> None:
        """Replace gradients and metrics by their sums over all learners, in place."""
        ...


class Learner:
    """Adam with one parameter group each for psi, for its cumulant and for a bonus; no loss shares
    parameters with another.
    """

    def __init__(
        self,
        agent: Agent,
        total_updates: int,
        phi_updates: int = 0,
        bonus_updates: int = 0,
        micro_batch: int = 0,
        device: torch.device | None = None,
        all_reduce: Reducer | None = None,
    ) -> None:
        self.agent, self.num_updates = agent, 0
        self._micro_batch, self._device = micro_batch, device or torch.device("cpu")
        self._total_updates, self._phi_updates = total_updates, phi_updates
        self._bonus_updates, self._all_reduce = bonus_updates, all_reduce
        self._optimiser = Adam(_parameter_groups(agent), fused=True)

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
            losses = self.agent.losses(unroll.to(self._device))
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
            losses = self.agent.losses(part.to(self._device))
            (losses.total * share).backward()
            for name, value in losses.metrics.items():
                metrics[name] = metrics.get(name, 0) + value * share
        if self._all_reduce:
            gradients = [p.grad for p in self.agent.parameters() if p.grad is not None]
            self._all_reduce.sum_gradients(gradients, metrics)
        return metrics

    def _set_learning_rates(self) -> None:
        decays = self.agent.config.learning_rate_decay == "linear"
        share = _share_left(self.num_updates, self._total_updates) if decays else 1.0
        phi_share = min(share, _share_left(self.num_updates, self._phi_updates))
        for group in self._optimiser.param_groups:
            group["lr"] = group["initial_lr"] * (phi_share if group["rests"] else share)

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later updates depend on, by name."""
        tensors = {f"agent.{k}": v for k, v in self.agent.state_dict().items()}
        return tensors | {f"adam.{k}": v for k, v in moments(self._optimiser).items()}

    def load_state(self, tensors: dict[str, Tensor], num_updates: int) -> None:
        """The inverse of `state`."""
        self.num_updates = num_updates
        self.agent.load_state_dict(within(tensors, "agent."))
        load_moments(self._optimiser, within(tensors, "adam."))


def moments(optimiser: Adam) -> dict[str, Tensor]:
    """Adam's state of every parameter, by the parameter's number."""
    saved = optimiser.state_dict()["state"]
    return {f"{index}.{k}": v for index, kept in saved.items() for k, v in kept.items()}


def load_moments(optimiser: Adam, tensors: dict[str, Tensor]) -> None:
    """The inverse of `moments`."""
    saved: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, kind = key.split(".")
        saved.setdefault(int(index), {})[kind] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": saved, "param_groups": groups})
    for (
        parameter,
        kept,
    ) in optimiser.state.items():  # fused Adam needs the parameter's memory layout
        for kind in ("exp_avg", "exp_avg_sq"):
            kept[kind] = torch.empty_like(parameter).copy_(kept[kind])


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
