"""Parameters, target, optimisers: update(unroll) -> metrics."""

from __future__ import annotations

from torch import Tensor, nn
from torch.optim import Adam

from visr.agents.visr import Visr
from visr.config import AgentConfig
from visr.types import Unroll


class Learner:
    """One Adam for psi, one for phi; psi steps first, on the phi that acting saw."""

    def __init__(self, agent: Visr, total_updates: int) -> None:
        self.agent, self.num_updates = agent, 0
        self._total_updates = total_updates
        config = agent.config
        self._optimisers = {
            "psi": _adam(agent.psi, config.psi_learning_rate, config.psi_adam_epsilon)
        }
        if config.features == "learned":
            self._optimisers["phi"] = _adam(
                agent.phi, config.phi_learning_rate, config.phi_adam_epsilon
            )

    def update(self, unroll: Unroll) -> dict[str, Tensor]:
        """One gradient step on psi and one on phi."""
        losses = self.agent.losses(unroll)
        for optimiser in self._optimisers.values():
            optimiser.zero_grad()
        # The two losses share no parameters, so one backward pass serves both.
        total = losses.psi + losses.phi if "phi" in self._optimisers else losses.psi
        total.backward()
        self._set_learning_rates(self.agent.config)
        for optimiser in self._optimisers.values():
            optimiser.step()
        self.num_updates += 1
        if self.num_updates % self.agent.config.target_period == 0:
            self.agent.refresh_target()
        return losses.metrics

    def _set_learning_rates(self, config: AgentConfig) -> None:
        if config.learning_rate_decay == "none":
            return
        left = max(0.0, 1 - self.num_updates / self._total_updates)
        initial = {"psi": config.psi_learning_rate, "phi": config.phi_learning_rate}
        for name, optimiser in self._optimisers.items():
            optimiser.param_groups[0]["lr"] = initial[name] * left

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later updates depend on, by name."""
        tensors = {f"agent.{k}": v for k, v in self.agent.state_dict().items()}
        for name, optimiser in self._optimisers.items():
            for index, moments in optimiser.state_dict()["state"].items():
                tensors |= {f"adam.{name}.{index}.{k}": v for k, v in moments.items()}
        return tensors

    def load_state(self, tensors: dict[str, Tensor], num_updates: int) -> None:
        """The inverse of `state`."""
        self.num_updates = num_updates
        self.agent.load_state_dict(within(tensors, "agent."))
        for name, optimiser in self._optimisers.items():
            moments: dict[int, dict[str, Tensor]] = {}
            for key, value in within(tensors, f"adam.{name}.").items():
                index, kind = key.split(".")
                moments.setdefault(int(index), {})[kind] = value
            groups = optimiser.state_dict()["param_groups"]
            optimiser.load_state_dict({"state": moments, "param_groups": groups})


def within(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The entries whose names begin with `prefix`, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _adam(module: nn.Module, learning_rate: float, epsilon: float) -> Adam:
    fused = all(p.device.type in ("cpu", "cuda") for p in module.parameters())
    return Adam(module.parameters(), lr=learning_rate, eps=epsilon, fused=fused)
