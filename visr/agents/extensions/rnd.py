"""Random network distillation (Burda et al., 2019): a state is new while a prediction there is wrong."""

from __future__ import annotations

from torch import Tensor, nn

from visr import networks
from visr.agents.extensions.bonus import Bonus
from visr.config.fields import AgentConfig
from visr.types import EnvSpec, Unroll

_SIZE = 32


class RndBonus(Bonus):
    """raw = |predictor(s') - target(s')|^2, with a random target that never changes."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__(config)
        self.target, self.predictor = (
            networks.features(spec, config, _SIZE, unit=False, centred=False) for _ in range(2)
        )
        self.target.requires_grad_(False)

    def raw(self, phi: nn.Module, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """The error of each step; its mean is the loss."""
        reached = unroll.observation[1:]
        error = (self.predictor(reached) - self.target(reached).detach()).square().mean(dim=-1)
        return error, unroll.mean_over_steps(error)
