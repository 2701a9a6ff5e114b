"""Reward-free steps to learn from, worth what a model says that rewarded steps have taught."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import Adam

from visr import config as configuration
from visr import envs
from visr.agents.visr import Visr
from visr.config import FinetuneConfig, RunConfig
from visr.errors import UserError
from visr.networks.reward_model import RewardModel
from visr.networks.successor import SuccessorFeatures
from visr.ops.r_squared import Fit
from visr.ops.rng import derived
from visr.training.actor import Actor
from visr.training.learner import load_moments, moments, within
from visr.training.replay import Replay
from visr.types import EnvSpec, Unroll

_FREE, _EPSILONS, _MODEL = 5, 6, 7
"""What seeds are derived for."""
_NUM_ENVS = 50
_LEARNING_RATE = 1e-3
_BATCH = 8
"""Unrolls per update of the model, half of them with a reward in them."""
_FIRST_LESSONS, _LESSONS = 600, 2
"""Updates of the model when it is first asked, and per round afterwards."""
_MOST_BYTES, _PER_UNROLL, _PER_STEP = 8 * 2**30, 4_000, 16
"""Of memory for free steps: in all; an unroll's and a step's share besides the observations, as measured."""
_NOTHING = 0.1
"""Of the least reward met: what is foreseen below it is none, as small errors of many steps add up."""


class Relabelled:
    """Steps of the pre-trained agent under tasks of its own, rewarded by a model of r(s, a, s').

    They are gathered anew when a fine-tuning is resumed: the agent, the seed and the world decide them.
    """

    def __init__(
        self,
        agent: Visr,
        config: RunConfig,
        settings: FinetuneConfig,
        clip: Callable[[Tensor], Tensor],
    ) -> None:
        self._settings, self._clip, seed = settings, clip, settings.seed
        self._device = agent.device
        acting = configuration.replace(
            config, unroll_length=settings.unroll_length, gpi=False, task_steps=0
        )
        env = envs.make_vec(config, _NUM_ENVS)
        self._actor = Actor(acting, env, agent, derived(seed, _FREE))
        self._epsilons = torch.Generator().manual_seed(derived(seed, _EPSILONS))
        self._free = Replay(_rounds(settings) * _NUM_ENVS)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived(seed, _MODEL))
            self._model = RewardModel(agent.spec).to(self._device)
        self._optimiser = Adam(self._model.parameters(), lr=_LEARNING_RATE, fused=True)
        self._lessons, self._fit = 0, Fit()
        self._least = self._largest = 0.0
        """Of the rewards met that were not 0: sizes."""
        self._digest, self._expected = hashlib.sha256(), None
        """Of what was gathered, and what it was before a stop."""

    @property
    def has_met_rewards(self) -> bool:
        """Whether there is anything to teach the model."""
        return self._largest > 0

    @property
    def num_steps(self) -> int:
        """Reward-free steps that are there to learn from."""
        return len(self._free) * self._settings.unroll_length

    @property
    def total_steps(self) -> int:
        """Reward-free steps in all: whole unrolls of all environments."""
        return _rounds(self._settings) * _NUM_ENVS * self._settings.unroll_length

    @property
    def is_gathered(self) -> bool:
        """Whether all of them are there."""
        return self.num_steps >= self.total_steps

    def gather(self) -> None:
        """One unroll more of every environment; whatever reward the world gave is struck out."""
        unroll = self._actor.collect(epsilon=self.epsilon(self._epsilons))
        for seen in (unroll.observation, unroll.action):
            self._digest.update(seen.numpy().data)
        self._free.restore(unroll._replace(reward=torch.full_like(unroll.reward, torch.nan)))
        if self.is_gathered:
            self._actor.env.close()
            self._refuse_other_steps()

    def _refuse_other_steps(self) -> None:
        """After a stop: what was gathered again must be what was learnt from."""
        if self._expected is not None and self._expected != self._digest.digest():
            raise UserError(
                "The reward-free steps came out otherwise than before the stop, as they may on another "
                "machine or device; go on where it began, or fine-tune again."
            )

    def epsilon(self, random: torch.Generator) -> float:
        """A share of random actions, new for every unroll: states and actions that no task would meet."""
        least, most = self._settings.epsilon, self._settings.free_epsilon
        return least + (max(most, least) - least) * float(torch.rand((), generator=random))

    def sample(self, count: int, random: torch.Generator) -> Unroll:
        """Unrolls drawn evenly, with the rewards that the model foresees."""
        unroll = self._free.sample(count, random)
        with torch.no_grad():
            return unroll._replace(reward=self._label(unroll))

    def _label(self, unroll: Unroll) -> Tensor:
        """What the model foresees, at most the largest reward met; far below the least it is nothing."""
        foreseen = self._foreseen(unroll.to(self._device)).cpu()
        foreseen = functional.hardshrink(foreseen, _NOTHING * self._least)
        return foreseen.clamp(-self._largest, self._largest)

    def teach(self, rewarded: Replay, random: torch.Generator) -> None:
        """Some gradient steps on the squared error, on steps of which half are near a reward."""
        num_lessons = _LESSONS if self._lessons else _FIRST_LESSONS
        for _ in range(num_lessons):
            unroll, weight = rewarded.sample_notable(_BATCH, random)
            steps = unroll.to(self._device)
            error = (self._foreseen(steps) - self._clip(steps.reward)).square().cpu()
            happened = (~unroll.is_reset) * weight
            loss = (error * happened).sum() / happened.sum().clamp(min=1e-6)
            self._optimiser.zero_grad()
            loss.backward()
            self._optimiser.step()
        self._lessons += num_lessons

    @torch.no_grad()
    def judge(self, unroll: Unroll) -> None:
        """Take note of new rewards, and of how well they were foreseen before they are learnt from."""
        happened = ~unroll.is_reset
        reward = self._clip(unroll.reward)[happened].double()
        sizes = reward.abs()[reward != 0]
        if len(sizes):
            self._largest = max(self._largest, float(sizes.max()))
            self._least = min(self._least or math.inf, float(sizes.min()))
        if self._lessons and len(reward):
            self._fit.note(reward, self._label(unroll)[happened].double())

    @property
    def r_squared(self) -> float | None:
        """The share of the variance of new rewards, so far, that was foreseen; None where nothing varied."""
        return self._fit.r_squared

    def _foreseen(self, unroll: Unroll) -> Tensor:
        return self._model(unroll.observation[:-1], unroll.action, unroll.observation[1:])

    def state(self) -> dict[str, Tensor]:
        """All but the steps, which the agent that gathered them will gather again."""
        tensors = {f"psi.{k}": v for k, v in self._actor.psi.state_dict().items()}
        tensors |= {f"model.{k}": v for k, v in self._model.state_dict().items()}
        tensors |= {f"adam.{k}": v for k, v in moments(self._optimiser).items()}
        digest = self._digest.digest() if self.is_gathered else self._expected or b""
        numbers = [self._least, self._largest, *self._fit.sums()]
        return tensors | {
            "lessons": torch.tensor(self._lessons),
            "numbers": torch.tensor(numbers, dtype=torch.float64),
            "digest": torch.tensor(list(digest), dtype=torch.uint8),
        }

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`, trusting nothing."""
        for name, values in tensors.items():
            if not bool(values.isfinite().all()):
                raise ValueError(f"its relabelled.{name} is not finite")
        numbers, digest = tensors["numbers"], tensors["digest"]
        if numbers.shape != (6,) or bool((numbers[[0, 1, 2, 4, 5]] < 0).any()):
            raise ValueError("its account of rewards is none")
        if digest.dtype != torch.uint8 or len(digest) not in (0, hashlib.sha256().digest_size):
            raise ValueError("its digest of reward-free steps is none")
        self._actor.psi.load_state_dict(within(tensors, "psi."))
        self._model.load_state_dict(within(tensors, "model."))
        load_moments(self._optimiser, within(tensors, "adam."))
        self._least, self._largest, *sums = numbers.double().tolist()
        self._fit = Fit(*sums)
        self._expected = bytes(digest.tolist()) or None
        self._lessons = int(tensors["lessons"])
        if self._lessons < 0 or (self._lessons and not self.has_met_rewards):
            raise ValueError(f"its lessons are {self._lessons}")


def refuse_misfits(psi: SuccessorFeatures, spec: EnvSpec, settings: FinetuneConfig) -> None:
    """Free steps that this agent cannot learn from, or that memory cannot hold."""
    if not settings.free_steps:
        return
    if psi.memory_size:
        raise UserError(
            f"free_steps = {settings.free_steps:,} is for a psi without memory; fine-tune with 0, or "
            "pre-train with --core none."
        )
    space, length = spec.observation_space, settings.unroll_length
    seen = float(np.prod(space.shape or ())) * np.dtype(space.dtype).itemsize
    one = (seen * (length + 1) + _PER_UNROLL) / length + _PER_STEP
    if one * settings.free_steps > _MOST_BYTES:
        raise UserError(
            f"free_steps = {settings.free_steps:,} would take {one * settings.free_steps / 2**30:,.0f} GiB "
            f"of memory; give at most {int(_MOST_BYTES / one):,}."
        )


def _rounds(settings: FinetuneConfig) -> int:
    """Unrolls per environment that hold all of the free steps."""
    return -(-settings.free_steps // (_NUM_ENVS * settings.unroll_length))
