"""Reward-free steps for fine-tuning, labelled by a reward model that rewarded steps train."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np
import torch
from gymnasium.spaces import Box, Space
from torch import Tensor, nn
from torch.nn import functional

from visr import config as configuration
from visr import envs
from visr.agents.base import BehaviourModel
from visr.config import FinetuneConfig, RunConfig
from visr.errors import UserError
from visr.networks.conv_torsos import convolution, is_image
from visr.networks.mlp_torsos import first_layer, linear
from visr.ops import derived_seed
from visr.ops.adam import Adam
from visr.training.actor import Actor
from visr.training.learner import within
from visr.training.replay import ReplayBuffer
from visr.types import EnvSpec, Unroll

_ACTOR_SEED, _EPSILON_SEED, _MODEL_SEED = 5, 6, 7
_NUM_ENVS = 50
_LEARNING_RATE = 1e-3
_BATCH = 8
"""Unrolls per update of the model; half of them contain a reward."""
_FIRST_UPDATES, _UPDATES_PER_ROUND = 600, 2
"""Updates of the model before its first use, and per round afterwards."""
_CHANNELS, _HIDDEN = 32, 64
_SMALL = 20
"""The reward model reads images with a shorter side at full resolution."""
_MAX_BYTES, _BYTES_PER_UNROLL, _BYTES_PER_STEP = 8 * 2**30, 4_000, 16
"""Memory for free steps: the limit, and the measured use of an unroll and of a step besides observations."""
_NEGLIGIBLE = 0.1
"""Predictions below this share of the smallest reward seen become 0: small errors of many steps add up."""


class RelabelledSteps:
    """Steps of the pre-trained agent for random tasks, with rewards predicted by a model of r(s, a, s').

    A resumed fine-tuning collects the same steps again: agent, seed and environment determine them.
    """

    def __init__(
        self,
        agent: BehaviourModel,
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
        self._actor = Actor(acting, env, agent, derived_seed(seed, _ACTOR_SEED))
        self._epsilon_rng = torch.Generator().manual_seed(derived_seed(seed, _EPSILON_SEED))
        example = self._actor.empty_unroll(torch.zeros(agent.task_size))
        self._free = ReplayBuffer(_num_rounds(settings) * _NUM_ENVS, example)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, _MODEL_SEED))
            self._model = RewardModel(agent.spec).to(self._device)
        self._optimiser = Adam(self._model.parameters(), lr=_LEARNING_RATE)
        self._model_updates, self._fit = 0, RunningRSquared()
        self._smallest = self._largest = 0.0
        """Absolute values of the non-zero rewards seen so far."""
        self._digest, self._expected_digest = hashlib.sha256(), None
        """Of the steps collected, and of those collected before the run was stopped."""

    @property
    def has_seen_rewards(self) -> bool:
        """Whether there is a reward to train the model on."""
        return self._largest > 0

    @property
    def num_steps(self) -> int:
        """Reward-free steps collected so far."""
        return len(self._free) * self._settings.unroll_length

    @property
    def total_steps(self) -> int:
        """Reward-free steps to collect: whole unrolls of all environments."""
        return _num_rounds(self._settings) * _NUM_ENVS * self._settings.unroll_length

    @property
    def is_collected(self) -> bool:
        """Whether all of them have been collected."""
        return self.num_steps >= self.total_steps

    def collect(self) -> None:
        """Collect one unroll of every environment, without its rewards."""
        unroll = self._actor.collect(epsilon=self.epsilon(self._epsilon_rng))
        for field in (unroll.observation, unroll.action):
            self._digest.update(field.numpy().data)
        self._free.add(unroll._replace(reward=torch.full_like(unroll.reward, torch.nan)))
        if not self.is_collected:
            return
        self._actor.env.close()
        if self._expected_digest not in (None, self._digest.digest()):
            raise UserError(
                "The reward-free steps differ from those before the stop, as they may on another machine "
                "or device; resume where the fine-tuning began, or fine-tune again."
            )

    def epsilon(self, rng: torch.Generator) -> float:
        """A new probability of random actions per unroll, so that the steps cover more states and actions."""
        least, most = self._settings.epsilon, self._settings.free_epsilon
        return least + (max(most, least) - least) * float(torch.rand((), generator=rng))

    def sample(self, count: int, rng: torch.Generator) -> Unroll:
        """Unrolls drawn uniformly, with predicted rewards."""
        unroll = self._free.sample(count, rng)
        with torch.no_grad():
            return unroll._replace(reward=self._predicted(unroll))

    def _predicted(self, unroll: Unroll) -> Tensor:
        """The model's rewards, at most as large as any reward seen, and 0 where they are negligible."""
        reward = self._raw_prediction(unroll.to(self._device)).cpu()
        reward = functional.hardshrink(reward, _NEGLIGIBLE * self._smallest)
        return reward.clamp(-self._largest, self._largest)

    def _raw_prediction(self, unroll: Unroll) -> Tensor:
        return self._model(unroll.observation[:-1], unroll.action, unroll.observation[1:])

    def train_model(self, rewarded: ReplayBuffer[Unroll], rng: torch.Generator) -> None:
        """Some gradient steps on the squared error of rewarded unrolls."""
        count = _UPDATES_PER_ROUND if self._model_updates else _FIRST_UPDATES
        for _ in range(count):
            unroll, weight = sample_near_rewards(rewarded, _BATCH, rng)
            steps = unroll.to(self._device)
            error = (self._raw_prediction(steps) - self._clip(steps.reward)).square().cpu()
            weight = (~unroll.is_reset) * weight
            loss = (error * weight).sum() / weight.sum().clamp(min=1e-6)
            self._optimiser.zero_grad()
            loss.backward()
            self._optimiser.step()
        self._model_updates += count

    @torch.no_grad()
    def observe_rewards(self, unroll: Unroll) -> None:
        """Update the range of rewards, and the R^2 of predictions made before the model sees them."""
        is_step = ~unroll.is_reset
        reward = self._clip(unroll.reward)[is_step].double()
        sizes = reward.abs()[reward != 0]
        if len(sizes):
            self._largest = max(self._largest, float(sizes.max()))
            self._smallest = min(self._smallest or math.inf, float(sizes.min()))
        if self._model_updates and len(reward):
            self._fit.add(reward, self._predicted(unroll)[is_step].double())

    @property
    def r_squared(self) -> float | None:
        """The share of the variance of new rewards that was predicted; None if they did not vary."""
        return self._fit.r_squared

    def state(self) -> dict[str, Tensor]:
        """All but the steps, which a resumed fine-tuning collects again."""
        tensors = {f"psi.{k}": v for k, v in self._actor.psi.state_dict().items()}
        tensors |= {f"model.{k}": v for k, v in self._model.state_dict().items()}
        tensors |= {f"adam.{k}": v for k, v in self._optimiser.moments().items()}
        digest = self._digest.digest() if self.is_collected else self._expected_digest or b""
        numbers = [self._smallest, self._largest, *astuple(self._fit)]
        return tensors | {
            "lessons": torch.tensor(self._model_updates),
            "numbers": torch.tensor(numbers, dtype=torch.float64),
            "digest": torch.tensor(list(digest), dtype=torch.uint8),
        }

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`; a ValueError if a tensor cannot be used."""
        for name, values in tensors.items():
            if not bool(values.isfinite().all()):
                raise ValueError(f"its relabelled.{name} is not finite")
        numbers, digest = tensors["numbers"], tensors["digest"]
        if numbers.shape != (6,) or bool((numbers[[0, 1, 2, 4, 5]] < 0).any()):
            raise ValueError("its statistics of rewards are damaged")
        if digest.dtype != torch.uint8 or len(digest) not in (0, hashlib.sha256().digest_size):
            raise ValueError("its digest of reward-free steps is damaged")
        self._actor.psi.load_state_dict(within(tensors, "psi."))
        self._model.load_state_dict(within(tensors, "model."))
        self._optimiser.load_moments(within(tensors, "adam."))
        self._smallest, self._largest, *sums = numbers.double().tolist()
        self._fit = RunningRSquared(*sums)
        self._expected_digest = bytes(digest.tolist()) or None
        self._model_updates = int(tensors["lessons"])
        if self._model_updates < 0 or (self._model_updates and not self.has_seen_rewards):
            raise ValueError(f"its model has had {self._model_updates} updates")


def sample_near_rewards(
    buffer: ReplayBuffer[Unroll], count: int, rng: torch.Generator
) -> tuple[Unroll, Tensor]:
    """Unrolls of which half contain a reward, and weights [count] that undo this preference."""
    entries = buffer.select("reward", "is_reset")
    has_reward = (entries["reward"].ne(0) & ~entries["is_reset"]).any(dim=0)
    rewarded = has_reward.nonzero().flatten()
    chosen = torch.randint(len(buffer), (count,), generator=rng)
    if not len(rewarded):
        return buffer.take(chosen), torch.ones(count)
    half = count // 2
    chosen[:half] = rewarded[torch.randint(len(rewarded), (half,), generator=rng)]
    odds, share = half / count, len(rewarded) / len(buffer)
    weight = torch.where(has_reward[chosen], 1 / (1 - odds + odds / share), 1 / (1 - odds))
    return buffer.take(chosen), weight


@dataclass
class RunningRSquared:
    """1 - sum (r - prediction)^2 / sum (r - mean)^2, from batches as they come."""

    count: float = 0.0
    mean: float = 0.0
    spread: float = 0.0
    """sum (r - mean)^2"""
    errors: float = 0.0
    """sum (r - prediction)^2"""

    def add(self, r: Tensor, prediction: Tensor) -> None:
        """Merge a batch, both [N] of float64 (Chan et al., 1979)."""
        count, mean = len(r), float(r.mean())
        total, shift = self.count + count, mean - self.mean
        self.spread += float((r - mean).square().sum()) + shift**2 * self.count * count / total
        self.mean += shift * count / total
        self.count = total
        self.errors += float((r - prediction).square().sum())

    @property
    def r_squared(self) -> float | None:
        """None where r did not vary, but for rounding."""
        if self.spread <= 1e-18 * self.count * self.mean**2:
            return None
        return 1 - self.errors / self.spread


def check_free_steps(agent: BehaviourModel, settings: FinetuneConfig) -> None:
    """Refuse free steps that this agent cannot learn from, or that memory cannot hold."""
    if not settings.free_steps:
        return
    if agent.psi.memory_size:
        raise UserError(
            f"free_steps = {settings.free_steps:,} is for a psi without memory; fine-tune with 0, or "
            "pre-train with --core none."
        )
    space, length = agent.spec.observation_space, settings.unroll_length
    observation = float(np.prod(space.shape or ())) * np.dtype(space.dtype).itemsize
    one = (observation * (length + 1) + _BYTES_PER_UNROLL) / length + _BYTES_PER_STEP
    if one * settings.free_steps > _MAX_BYTES:
        raise UserError(
            f"free_steps = {settings.free_steps:,} would take {one * settings.free_steps / 2**30:,.0f} GiB "
            f"of memory; give at most {int(_MAX_BYTES / one):,}."
        )


def _num_rounds(settings: FinetuneConfig) -> int:
    """Unrolls per environment that hold all free steps."""
    return -(-settings.free_steps // (_NUM_ENVS * settings.unroll_length))


class RewardModel(nn.Module):
    """r(s, a, s'): an encoding of (s, s') plus an embedding of a, then a hidden layer."""

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        space = spec.observation_space
        self.change = (
            _ImageChange(space)
            if isinstance(space, Box) and is_image(space)
            else _VectorChange(space)
        )
        self.action = nn.Embedding(spec.num_actions, self.change.size)
        nn.init.zeros_(self.action.weight)
        self.hidden = linear(self.change.size, _HIDDEN)
        self.readout = linear(_HIDDEN, 1)

    def forward(self, before: Tensor, action: Tensor, reached: Tensor) -> Tensor:
        """before [..., *O], action [...], reached [..., *O] -> [...]"""
        batch = action.shape
        before, reached = (x.flatten(0, len(batch) - 1) for x in (before, reached))
        change = self.change(before, reached) + self.action(action.flatten())
        return self.readout(self.hidden(change).relu()).view(batch)


class _ImageChange(nn.Module):
    """Convolutions on both images and on the coordinates of each pixel, then a maximum over all places.

    Rewards mostly depend on what happens in one place; the maximum generalises from there to all places.
    """

    size = _CHANNELS

    def __init__(self, space: Box) -> None:
        super().__init__()
        self._brightest = max(int(space.high.max()), 1)
        channels, height, width = space.shape
        size, stride, padding = (3, 1, 1) if min(height, width) < _SMALL else (8, 4, 0)
        # One layer on images and coordinates is the sum of a layer on each; coordinates never change.
        self.image = convolution(2 * channels, _CHANNELS, size, stride, padding)
        self.place = convolution(2, _CHANNELS, size, stride, padding)
        self.second = convolution(_CHANNELS, _CHANNELS, 1 if stride == 1 else 3)
        places = (torch.linspace(-1, 1, length) for length in (height, width))
        self.places: Tensor
        self.register_buffer(
            "places", torch.stack(torch.meshgrid(*places, indexing="ij"))[None], persistent=False
        )

    def forward(self, before: Tensor, reached: Tensor) -> Tensor:
        """[N, C, H, W] uint8, the same -> [N, size]"""
        planes = torch.stack([*before.unbind(1), *reached.unbind(1)], dim=-1)
        pixels = planes.permute(0, 3, 1, 2).float().mul_(1 / self._brightest)
        place = self.place(self.places).contiguous(memory_format=torch.channels_last)
        signs = (self.image(pixels) + place).relu_()
        return self.second(signs).relu_().amax(dim=(-2, -1))


class _VectorChange(nn.Module):
    """One layer on both states or vectors."""

    size = _HIDDEN

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.before, self.reached = (first_layer(space, self.size) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(self.size))

    def forward(self, before: Tensor, reached: Tensor) -> Tensor:
        """[N, ...], the same -> [N, size]"""
        return (self.before(before) + self.reached(reached) + self.bias).relu()
