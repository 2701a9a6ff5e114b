"""Reward-free steps to learn from, worth what a model says that rewarded steps have taught."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import Adam

from visr import config as configuration
from visr import envs
from visr.config import FinetuneConfig, RunConfig
from visr.errors import UserError
from visr.networks.reward import RewardModel
from visr.networks.successor import SuccessorFeatures
from visr.ops.seeds import derived
from visr.training.learner import load_moments, moments, within
from visr.training.replay import Replay
from visr.training.unroll import Actor
from visr.types import EnvSpec, Unroll

_FREE, _EPSILONS, _MODEL = 5, 6, 7
"""What seeds are derived for."""
_NUM_ENVS = 50
_LEARNING_RATE = 1e-3
_BATCH = 8
"""Unrolls per update of the model, half of them with a reward in them."""
_FIRST_LESSONS, _LESSONS = 600, 2
"""Updates of the model when it is first asked, and per round afterwards."""
_MOST_BYTES = 8 * 2**30
"""Of free observations."""
_NOTHING = 0.1
"""Rewards foreseen below this are none: most steps have none, and their small errors would add up."""


class Relabelled:
    """Steps of the pre-trained agent under tasks of its own, rewarded by a model of r(s, a, s').

    They are gathered anew when a fine-tuning is resumed: the agent, the seed and the world decide them.
    """

    def __init__(
        self,
        psi: SuccessorFeatures,
        spec: EnvSpec,
        config: RunConfig,
        settings: FinetuneConfig,
        clip: Callable[[Tensor], Tensor],
    ) -> None:
        _refuse_misfits(psi, spec, settings)
        self._settings, self._clip, seed = settings, clip, settings.seed
        self._device = next(psi.parameters()).device
        acting = configuration.replace(
            config, unroll_length=settings.unroll_length, gpi=False, task_steps=0
        )
        env = envs.make_vec(config, _NUM_ENVS)
        self._actor = Actor(acting, env, psi, derived(seed, _FREE))
        self._epsilons = torch.Generator().manual_seed(derived(seed, _EPSILONS))
        self._free = Replay(_rounds(settings) * _NUM_ENVS)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived(seed, _MODEL))
            self._model = RewardModel(spec).to(self._device)
        self._optimiser = Adam(self._model.parameters(), lr=_LEARNING_RATE, fused=True)
        self._lessons, self._largest = 0, 0.0
        self._errors = torch.zeros(4, dtype=torch.float64)
        """Of what was foreseen before it was learnt from: sums of 1, r, r^2 and (r - foreseen)^2."""

    @property
    def has_met_rewards(self) -> bool:
        """Whether there is anything to teach the model."""
        return self._largest > 0

    @property
    def num_steps(self) -> int:
        """Reward-free steps that are there to learn from."""
        return len(self._free) * self._settings.unroll_length

    @property
    def is_gathered(self) -> bool:
        """Whether all of them are there."""
        return self.num_steps >= self.total_steps

    @property
    def total_steps(self) -> int:
        """Reward-free steps in all: whole unrolls of all environments."""
        return _rounds(self._settings) * _NUM_ENVS * self._settings.unroll_length

    def gather(self) -> None:
        """One unroll more of every environment; whatever reward the world gave is struck out."""
        unroll = self._actor.collect(epsilon=self.epsilon(self._epsilons))
        self._free.restore(unroll._replace(reward=torch.full_like(unroll.reward, torch.nan)))

    def epsilon(self, random: torch.Generator) -> float:
        """A share of random actions, new for every unroll: states and actions that no task would meet."""
        least, most = self._settings.epsilon, self._settings.free_epsilon
        return least + (max(most, least) - least) * float(torch.rand((), generator=random))

    def sample(self, count: int, random: torch.Generator) -> Unroll:
        """Unrolls drawn evenly, with the rewards that the model foresees."""
        unroll = self._free.sample(count, random)
        with torch.no_grad():
            foreseen = self._foreseen(unroll.to(self._device)).cpu()
        largest = self._largest
        foreseen = functional.hardshrink(foreseen, _NOTHING * largest).clamp(-largest, largest)
        return unroll._replace(reward=foreseen)

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
        """How well the model foresees rewards that it has not learnt from yet."""
        reward, happened = self._clip(unroll.reward), ~unroll.is_reset
        self._largest = max(self._largest, float(reward.abs().max()))
        if not self._lessons:
            return
        r = reward[happened].double()
        off = self._foreseen(unroll.to(self._device)).cpu()[happened].double() - r
        self._errors += torch.stack(
            [torch.tensor(float(len(r))).double(), r.sum(), r.square().sum(), off.square().sum()]
        )

    @property
    def r_squared(self) -> float:
        """The share of the variance of new rewards that the model foresaw; 0 before anything is known."""
        count, total, squares, errors = self._errors.tolist()
        spread = squares - total * total / max(count, 1.0)
        return 1 - errors / spread if spread > 0 else 0.0

    def _foreseen(self, unroll: Unroll) -> Tensor:
        return self._model(unroll.observation[:-1], unroll.action, unroll.observation[1:])

    def state(self) -> dict[str, Tensor]:
        """All but the steps, which the agent that gathered them will gather again."""
        tensors = {f"psi.{k}": v for k, v in self._actor.psi.state_dict().items()}
        tensors |= {f"model.{k}": v for k, v in self._model.state_dict().items()}
        tensors |= {f"adam.{k}": v for k, v in moments(self._optimiser).items()}
        largest = torch.tensor(self._largest, dtype=torch.float64)
        lessons = torch.tensor(self._lessons)
        return tensors | {"lessons": lessons, "largest": largest, "errors": self._errors}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`."""
        self._actor.psi.load_state_dict(within(tensors, "psi."))
        self._model.load_state_dict(within(tensors, "model."))
        load_moments(self._optimiser, within(tensors, "adam."))
        self._lessons, self._largest = int(tensors["lessons"]), float(tensors["largest"])
        self._errors = tensors["errors"].clone()
        if self._errors.shape != (4,) or not bool(self._errors.isfinite().all()):
            raise ValueError("its errors of the reward's model are no sums")
        if not 0 <= self._largest < math.inf:
            raise ValueError(f"its largest reward is {self._largest}")


def _refuse_misfits(psi: SuccessorFeatures, spec: EnvSpec, settings: FinetuneConfig) -> None:
    if psi.memory_size:
        raise UserError(
            f"free_steps = {settings.free_steps:,} is for a psi without memory; fine-tune with 0, or "
            "pre-train with --core none."
        )
    space = spec.observation_space
    one = np.prod(space.shape or ()) * np.dtype(space.dtype).itemsize
    if one * settings.free_steps > _MOST_BYTES:
        raise UserError(
            f"free_steps = {settings.free_steps:,} would take {one * settings.free_steps / 2**30:,.0f} GiB "
            f"of memory; give at most {int(_MOST_BYTES / one):,}."
        )


def _rounds(settings: FinetuneConfig) -> int:
    """Unrolls per environment that hold all of the free steps."""
    return -(-settings.free_steps // (_NUM_ENVS * settings.unroll_length))
