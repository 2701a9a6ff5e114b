"""Parameters, target, optimisers: update(unroll) -> metrics."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.optim import Adam

from visr.agents.registry import Agent
from visr.agents.visr import Visr
from visr.types import Unroll


class Partners(Protocol):
    """Other learners that hold the same weights and take other parts of the same batches."""

    def total(self, count: Tensor) -> Tensor:
        """The sum of everybody's counts."""
        ...

    def add_up(self, gradients: list[Tensor], metrics: dict[str, Tensor]) -> None:
        """Replace everybody's own by the sums, in place."""
        ...


class Learner:
    """Adam with a group of parameters for psi, one for its cumulant, one for a bonus; losses share none."""

    def __init__(
        self,
        agent: Agent,
        total_updates: int,
        phi_updates: int = 0,
        bonus_updates: int = 0,
        micro_batch: int = 0,
        device: torch.device | None = None,
        partners: Partners | None = None,
    ) -> None:
        self.agent, self.num_updates = agent, 0
        self._micro_batch, self._device = micro_batch, device or torch.device("cpu")
        self._total_updates, self._phi_updates = total_updates, phi_updates
        self._bonus_updates, self._partners = bonus_updates, partners
        self._optimiser = Adam(_parameter_groups(agent), fused=True)

    def update(self, unroll: Unroll) -> dict[str, Tensor]:
        """One gradient step on psi and one on phi."""
        self._optimiser.zero_grad()
        if isinstance(self.agent, Visr) and self.agent.bonus is not None:
            self.agent.bonus.share = _share_left(self.num_updates, self._bonus_updates)
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
        if size == unroll.num_unrolls and self._partners is None:
            losses = self.agent.losses(unroll.to(self._device))
            losses.total.backward()
            return losses.metrics
        metrics: dict[str, Tensor] = {}
        happened = (~unroll.is_reset).sum()
        total = (self._partners.total(happened) if self._partners else happened).clamp(min=1)
        for start in range(0, unroll.num_unrolls, size):
            piece = unroll.part(start, start + size)
            share = float((~piece.is_reset).sum() / total)
            losses = self.agent.losses(piece.to(self._device))
            (losses.total * share).backward()
            for name, value in losses.metrics.items():
                metrics[name] = metrics.get(name, 0) + value * share
        if self._partners:
            self._partners.add_up(_gradients(self.agent), metrics)
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
    """What Adam remembers of every parameter, by the parameter's number."""
    remembered = optimiser.state_dict()["state"]
    return {f"{index}.{k}": v for index, kept in remembered.items() for k, v in kept.items()}


def load_moments(optimiser: Adam, tensors: dict[str, Tensor]) -> None:
    """The inverse of `moments`."""
    remembered: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, kind = key.split(".")
        remembered.setdefault(int(index), {})[kind] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": remembered, "param_groups": groups})
    for parameter, kept in optimiser.state.items():  # fused Adam goes by place in memory
        for kind in ("exp_avg", "exp_avg_sq"):
            kept[kind] = torch.empty_like(parameter).copy_(kept[kind])


def _share_left(num_updates: int, total: int) -> float:
    """How much of `total` is still to come; a total of 0 never ends."""
    return max(0.0, 1 - num_updates / total) if total else 1.0


def _parameter_groups(agent: Agent) -> list[dict[str, Any]]:
    config = agent.config
    psi = (config.psi_learning_rate, config.psi_adam_epsilon, False)
    phi = (config.phi_learning_rate, config.phi_adam_epsilon, True)
    groups = [(list(agent.psi.parameters()), psi), (agent.cumulant_parameters(), phi)]
    if isinstance(agent, Visr) and agent.bonus is not None:
        learning = [p for p in agent.bonus.parameters() if p.requires_grad]
        groups.append((learning, (*phi[:2], False)))
    return [
        {"params": parameters, "lr": rate, "initial_lr": rate, "eps": epsilon, "rests": rests}
        for parameters, (rate, epsilon, rests) in groups
        if parameters
    ]


def _gradients(agent: Agent) -> list[Tensor]:
    return [p.grad for p in agent.parameters() if p.grad is not None]


Kind = TypeVar("Kind")


def within(entries: dict[str, Kind], prefix: str) -> dict[str, Kind]:
    """The entries whose names begin with `prefix`, without it."""
    return {k.removeprefix(prefix): v for k, v in entries.items() if k.startswith(prefix)}
