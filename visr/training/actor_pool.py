"""Actor pools: the actors of one process, in groups of environments."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from torch import Tensor

from visr import envs
from visr.agents.base import Agent
from visr.config.fields import RunConfig
from visr.networks.successor import SuccessorFeatures
from visr.training.actor import Actor
from visr.training.learner import within
from visr.types import Pursuit, Unroll


class ActorPool(Protocol):
    """Actors that collect one unroll of each of their groups between `begin` and `collect`."""

    def begin(self, psi: SuccessorFeatures, pursuit: Pursuit | None = None) -> None:
        """Start with these weights; `pursuit` is of all environments, for the replay learner only."""

    def collect(self) -> list[Unroll]:
        """One unroll of every group."""
        ...

    def reset_unsaveable_envs(self, num_steps: int) -> None:
        """Start new episodes in environments whose state cannot be saved."""

    def state(self) -> dict[str, Tensor]:
        """Every tensor that decides the next unrolls, except the weights."""
        ...

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """The inverse of `state`."""

    def close(self) -> None:
        """End processes and environments."""


class LocalActorPool:
    """Actors of this process; they act one after the other."""

    def __init__(
        self,
        config: RunConfig,
        groups: list[int],
        agent: Agent,
        actor_class: type[Actor] = Actor,
    ) -> None:
        sizes, seeds = group_sizes(config), group_seeds(config)
        self.actors = {
            group: actor_class(config, envs.make_vec(config, sizes[group]), agent, seeds[group])
            for group in groups
        }
        self._config = config
        self._pursuit: Pursuit | None = None

    def begin(self, psi: SuccessorFeatures, pursuit: Pursuit | None = None) -> None:
        """Copy the weights now, because the learner is about to change its own."""
        self._pursuit = pursuit
        for actor in self.actors.values():
            actor.refresh(psi)

    def collect(self) -> list[Unroll]:
        parts = parts_of(self._config, self._pursuit)
        return [actor.next_unroll(parts[group]) for group, actor in self.actors.items()]

    def reset_unsaveable_envs(self, num_steps: int) -> None:
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
        for actor in self.actors.values():
            actor.env.close()


def make_actor_pools(
    config: RunConfig,
    agent: Agent,
    num_processes: int,
    actor_class: type[Actor] = Actor,
    *,
    only_learns: bool = False,
) -> list[ActorPool]:
    """Pools for all groups, in order. Of several processes this one learns and acts for one group.

    It acts for none if the others are enough for one group each, or if it `only_learns`.
    """
    groups = list(range(config.training.num_actor_groups))
    if num_processes == 1:
        return [LocalActorPool(config, groups, agent, actor_class)]
    from visr.training.subprocess_actor_pool import SubprocessActorPool

    num_here = int(not only_learns and num_processes <= len(groups))
    shares = [s.tolist() for s in np.array_split(groups[num_here:], num_processes - 1) if len(s)]
    here = [LocalActorPool(config, groups[:num_here], agent, actor_class)] if num_here else []
    return [*here, *(SubprocessActorPool(config, share) for share in shares)]


def parts_of(config: RunConfig, pursuit: Pursuit | None) -> list[Pursuit | None]:
    """What each group pursues."""
    sizes = group_sizes(config)
    if pursuit is None:
        return [None] * len(sizes)
    fields = (x.split(sizes) for x in pursuit)
    return [Pursuit(*part) for part in zip(*fields, strict=True)]


def group_sizes(config: RunConfig) -> list[int]:
    """Environments per group, as equal as possible."""
    training = config.training
    num_envs, num_groups = training.num_envs - training.num_rewarded_envs, training.num_actor_groups
    return [num_envs // num_groups + (i < num_envs % num_groups) for i in range(num_groups)]


def group_seeds(config: RunConfig) -> list[int]:
    """A seed per group; it does not depend on the group's process."""
    sequence = np.random.SeedSequence([config.training.seed, 1])
    return [int(s) for s in sequence.generate_state(config.training.num_actor_groups)]
