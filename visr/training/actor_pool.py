"""Actor pools: the actors of one process, in groups of environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from visr import envs
from visr.agents.base import Agent
from visr.config.fields import RunConfig
from visr.networks.successor import SuccessorFeatures
from visr.training.actor import Actor
from visr.training.learner import within
from visr.types import Unroll

if TYPE_CHECKING:
    from visr.training.subprocess_actor_pool import SubprocessActorPool


class LocalActorPool:
    """Actors of this process; they act one after the other."""

    def __init__(self, config: RunConfig, groups: list[int], agent: Agent) -> None:
        sizes, seeds = group_sizes(config), group_seeds(config)
        self.actors = {
            group: Actor(config, envs.make_vec(config, sizes[group]), agent, seeds[group])
            for group in groups
        }

    def begin(self, psi: SuccessorFeatures) -> None:
        """Copy the weights now, because the learner is about to change its own."""
        for actor in self.actors.values():
            actor.refresh(psi)

    def collect(self) -> list[Unroll]:
        """One unroll of every group."""
        return [actor.collect() for actor in self.actors.values()]

    def reset_unsaveable_envs(self, num_steps: int) -> None:
        """Start new episodes in environments whose state cannot be saved."""
        for actor in self.actors.values():
            actor.reset_unsaveable_envs(num_steps)

    def state(self) -> dict[str, Tensor]:
        """Each group's state under the group's name, so that other pools can load it."""
        return {
            f"actor{group}.{name}": tensor
            for group, actor in self.actors.items()
            for name, tensor in actor.state().items()
        }

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """The inverse of `state`; tensors of other groups are ignored."""
        for group, actor in self.actors.items():
            actor.load_state(within(tensors, f"actor{group}."), num_steps)

    def close(self) -> None:
        """Nothing to close."""


def make_actor_pools(
    config: RunConfig, agent: Agent, num_processes: int
) -> list[LocalActorPool | SubprocessActorPool]:
    """Pools for all groups, in order: the first group acts in this process, the others in children."""
    groups = list(range(config.training.num_actor_groups))
    if num_processes == 1 or len(groups) == 1:
        return [LocalActorPool(config, groups, agent)]
    from visr.training.subprocess_actor_pool import SubprocessActorPool

    shares = [s.tolist() for s in np.array_split(groups[1:], num_processes - 1) if len(s)]
    remote = [SubprocessActorPool(config, share) for share in shares]
    return [LocalActorPool(config, groups[:1], agent), *remote]


def group_sizes(config: RunConfig) -> list[int]:
    """Environments per group, as equal as possible."""
    training = config.training
    num_envs, num_groups = training.num_envs - training.num_rewarded_envs, training.num_actor_groups
    return [num_envs // num_groups + (i < num_envs % num_groups) for i in range(num_groups)]


def group_seeds(config: RunConfig) -> list[int]:
    """A seed per group; it does not depend on the group's process."""
    sequence = np.random.SeedSequence([config.training.seed, 1])
    return [int(s) for s in sequence.generate_state(config.training.num_actor_groups)]
