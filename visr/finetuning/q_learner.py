"""RL on the true reward: Q(s, a) = psi(s, a, w) . w to begin with, then n-step Q-learning with replay."""

from __future__ import annotations

import copy
import math

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Adam

from visr import config as configuration
from visr import envs
from visr.agents.visr import Visr, n_step_error
from visr.config import FinetuneConfig, RunConfig
from visr.finetuning.relabelling import Relabelled
from visr.finetuning.stored_unrolls import met
from visr.networks.successor import SuccessorFeatures
from visr.ops.rng import derived
from visr.training.actor import Actor
from visr.training.batch_queue import concatenate
from visr.training.learner import load_moments, moments, within
from visr.training.replay import Replay
from visr.types import Unroll

_WARM_UP = 2_000
"""Steps before the first update: enough to see in which unit rewards come."""
_SMALLEST_UNIT = 0.1
_LONGEST_GRADIENT = 10.0
_AT_ONCE = 32
"""Unrolls that pass phi together: all of a game's screens would not fit into memory."""
_ACTOR = 4
"""Apart from the seeds of whoever judges: these games are learnt from."""


class FineTuner:
    """Trains an agent's psi, read out at one w, on a scalar reward; phi and w stay as they are.

    Rewards are divided by `unit`, the slope of r against what psi sums along w, and `offset` takes up a
    constant, so that the first Q is as near to the reward's as the features permit. From scratch the
    unit is 1.

    With `free_steps` most of what Q learns from was met without rewards (`training.relabelling`).
    """

    def __init__(
        self,
        agent: Visr,
        config: RunConfig,
        settings: FinetuneConfig,
        w: NDArray,
        saved: NDArray,
        reward: NDArray | None,
        pretrained: Visr | None = None,
    ) -> None:
        self.agent, self.settings, self._gamma = agent, settings, config.agent.gamma
        self._clips = config.inference.clip_rewards and reward is None
        self._device = agent.device
        self._w = torch.as_tensor(w, dtype=torch.float32)
        self._policies = torch.as_tensor(saved, dtype=torch.float32)
        """[P, d]: w itself and the other tasks that GPI consults at first."""
        self._cells = None if reward is None else torch.as_tensor(reward, dtype=torch.float32)
        acting = configuration.replace(
            config,
            unroll_length=settings.unroll_length,
            gpi=False,
            epsilon=settings.epsilon,
            task_steps=0,
        )
        env = envs.make_vec(config, settings.num_envs)
        pretrained = pretrained or agent
        self.actor = Actor(acting, env, pretrained, derived(settings.seed, _ACTOR))
        self.relabelled = (
            Relabelled(pretrained, config, settings, self._clipped) if settings.free_steps else None
        )
        self.replay = Replay(max(settings.replay_steps // settings.unroll_length, 1))
        self._target = copy.deepcopy(agent.psi).requires_grad_(False)
        self._offset = nn.Parameter(torch.zeros((), device=self._device))
        agent.psi.requires_grad_(True)
        self._optimiser = Adam(
            [*agent.psi.parameters(), self._offset], lr=settings.learning_rate, eps=1e-5, fused=True
        )
        self._random = torch.Generator().manual_seed(settings.seed)
        self.num_steps = self.num_updates = 0
        self._unit = 1.0
        self._returns = torch.zeros(settings.num_envs)

    @property
    def is_done(self) -> bool:
        """Whether all rewarded steps are spent, and what they permit to be learnt is learnt."""
        return self.num_steps >= self.settings.num_steps and not self._is_behind

    def round(self) -> dict[str, float]:
        """One unroll of every environment, then some updates on all that is remembered.

        With free steps: first rounds that only gather them, and later some that only learn from them.
        """
        if self.relabelled is not None and not self.relabelled.is_gathered:
            self.relabelled.gather()
            return {}
        if self._is_behind:
            return self._learn()
        was_ready, unroll = self._is_ready, self._act()
        if self.relabelled is not None:
            self.relabelled.judge(unroll)
        self.replay.add(unroll)
        self.num_steps += unroll.num_steps
        report = self._describe(unroll)
        if not self._is_ready:
            return report
        if not was_ready and not self.settings.from_scratch:
            self._take_unit()
        if self.relabelled is not None:
            self.relabelled.teach(self.replay, self._random)
            if (foreseen := self.relabelled.r_squared) is not None:
                report["foreseen"] = foreseen
        return {**report, **self._learn()}

    @property
    def _is_ready(self) -> bool:
        """Whether enough was met to learn from."""
        if self.relabelled is not None:
            return not self._sweeps
        return self.num_steps >= min(_WARM_UP, self.settings.num_steps)

    @property
    def _sweeps(self) -> bool:
        """Whether random tasks are pursued: for some steps, or until a reward is met if all hangs on it."""
        if self.relabelled is None:
            return self.num_steps < self.settings.sweep_steps and not self.settings.from_scratch
        least = min(max(self.settings.sweep_steps, _WARM_UP), self.settings.num_steps)
        return self.num_steps < least or not self.relabelled.has_met_rewards

    @property
    def _is_behind(self) -> bool:
        """Whether Q has free steps to learn from before it should act."""
        is_known = self.relabelled is not None and self._is_ready
        return is_known and self.num_updates < self.settings.free_updates

    @property
    def doing(self) -> str:
        """What goes on while no step is made; nothing otherwise."""
        if self.relabelled is not None and not self.relabelled.is_gathered:
            there, total = self.relabelled.num_steps, self.relabelled.total_steps
            return f"gathering: {there:,} of {total:,} reward-free steps"
        if self._is_behind:
            return f"learning from them: {self.num_updates:,} of {self.settings.free_updates:,} updates"
        return ""

    def _learn(self) -> dict[str, float]:
        losses = [self._update() for _ in range(self.settings.updates_per_round)]
        return {"loss": float(torch.stack(losses).mean())}

    def _act(self) -> Unroll:
        """By random tasks, then by GPI over saved ones, with psi as it came; later by Q.

        From scratch: from chance to Q. With free steps: Q acts as soon as it has learnt from them.
        """
        settings, age = self.settings, self.num_steps - self.settings.sweep_steps
        if self._sweeps:
            return self._sweep()
        is_fresh = settings.from_scratch and self.relabelled is None
        consults = (
            age < settings.gpi_steps and not settings.from_scratch and self.relabelled is None
        )
        if not consults:
            self.actor.refresh(self.agent.psi)
        epsilon = settings.epsilon
        if is_fresh and settings.exploration_steps:
            left = max(0.0, 1 - self.num_steps / settings.exploration_steps)
            epsilon = max(epsilon, left)
        policies = self._policies if consults else self._w[None]
        return self._rewarded(self.actor.collect(self._w, policies=policies, epsilon=epsilon))

    def _sweep(self) -> Unroll:
        """A task of its own for every environment; w learns from it all the same, as Q-learning does."""
        epsilon = self.settings.epsilon
        if self.relabelled is not None:
            epsilon = self.relabelled.epsilon(self._random)
        return self._rewarded(self._mine(self.actor.collect(epsilon=epsilon)))

    def _mine(self, unroll: Unroll) -> Unroll:
        """As if w had been pursued."""
        return unroll._replace(w=self._w.expand(unroll.num_unrolls, -1).contiguous())

    def _rewarded(self, unroll: Unroll) -> Unroll:
        """On the grid the reward is the task's, cell by cell."""
        if self._cells is None:
            return unroll
        reward = self._cells[unroll.observation[1:]]
        return unroll._replace(reward=reward.masked_fill(unroll.is_reset, 0))

    @torch.no_grad()
    def _take_unit(self) -> None:
        """r ~ unit * c . w + rest, by least squares on what was met so far; c is what psi sums."""
        seen = self.replay.all()
        assert seen is not None
        happened = ~seen.is_reset
        parts = (seen.part(i, i + _AT_ONCE) for i in range(0, seen.num_unrolls, _AT_ONCE))
        sums = [self.agent.phi_loss(p.to(self._device))[1] for p in parts]
        x = (torch.cat([c.cpu() for c in sums], dim=1) @ self._w)[happened]
        r = self._clipped(seen.reward)[happened]
        spread = float((x - x.mean()).square().mean())
        slope = float(((x - x.mean()) * (r - r.mean())).mean()) / max(spread, 1e-12)
        self._unit = max(slope, _SMALLEST_UNIT) if bool(r.any()) else 1.0
        rest = float(r.mean()) / self._unit - float(x.mean())
        self._offset.fill_(rest / (1 - self._gamma))

    def _update(self) -> Tensor:
        """One gradient step on the squared n-step error."""
        settings = self.settings
        unroll = self._batch().to(self._device)
        scalar = unroll._replace(w=unroll.w.new_ones(unroll.num_unrolls, 1))
        reward = self._clipped(unroll.reward).unsqueeze(-1) / self._unit
        with torch.no_grad():
            future = self._values(self._target, unroll)
        values = self._values(self.agent.psi, unroll)
        error = n_step_error(values, future, reward, scalar, self._gamma, settings.n_step)
        loss = scalar.mean_over_steps(error.square().sum(dim=-1))
        self._optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.agent.psi.parameters(), _LONGEST_GRADIENT)
        self._optimiser.step()
        self.num_updates += 1
        if self.num_updates % settings.target_period == 0:
            self._target.load_state_dict(self.agent.psi.state_dict())
        return loss.detach()

    def _batch(self) -> Unroll:
        """Of what was rewarded and of free steps, in their shares."""
        count, num_free = self.settings.batch_size, 0
        if self.relabelled is not None:
            num_free = count if self._is_behind else round(count * self.settings.free_share)
        parts = []
        if num_free and self.relabelled is not None:
            parts.append(self._mine(self.relabelled.sample(num_free, self._random)))
        if num_free < count:
            parts.append(self.replay.sample(count - num_free, self._random))
        return concatenate(parts)

    def _values(self, psi: SuccessorFeatures, unroll: Unroll) -> Tensor:
        """Q = psi . w + offset as one feature: [T + 1, B, actions, 1]"""
        w = self._w.to(self._device)
        return (psi.along(unroll) @ w + self._offset).unsqueeze(-1)

    def _clipped(self, reward: Tensor) -> Tensor:
        return reward.clamp(-1, 1) if self._clips else reward

    def remember(self, piece: dict[str, Tensor]) -> None:
        """Put a piece of the replay back; a ValueError or TypeError if these environments never gave it."""
        self.replay.restore(met(piece, self.actor.empty_unroll(self._w), self.agent.spec))

    @property
    def num_forgotten(self) -> int:
        """Unrolls that the replay should hold at this age, and does not."""
        settings = self.settings
        most = max(settings.replay_steps // settings.unroll_length, 1)
        return min(most, self.num_steps // settings.unroll_length) - len(self.replay)

    def _describe(self, unroll: Unroll) -> dict[str, float]:
        """The mean reward of the round, and the mean return of the episodes that ended in it."""
        finished: list[float] = []
        for reward, is_reset in zip(unroll.reward, unroll.is_reset, strict=True):
            finished += self._returns[is_reset].tolist()
            self._returns = torch.where(is_reset, 0.0, self._returns + reward)
        report = {"reward": float(unroll.mean_over_steps(unroll.reward))}
        if finished:
            report["return"] = sum(finished) / len(finished)
        return report

    def reset_unsaveable_envs(self) -> None:
        """Reset and reseed environments whose state cannot be saved, as a resumed run will."""
        if not self.actor.can_checkpoint_envs:
            self.actor.reset_envs(self.num_steps)
            self._returns = torch.zeros_like(self._returns)

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """All but what the replay holds; the agent is where any run keeps it, so that it loads as one."""
        tensors = {f"learner.agent.{k}": v for k, v in self.agent.state_dict().items()}
        tensors |= {f"adam.{k}": v for k, v in moments(self._optimiser).items()}
        tensors |= {f"target.{k}": v for k, v in self._target.state_dict().items()}
        tensors |= {f"actor.{k}": v for k, v in self.actor.state().items()}
        tensors |= {f"acting.{k}": v for k, v in self.actor.psi.state_dict().items()}
        tensors |= {"offset": self._offset.detach(), "random": self._random.get_state()}
        tensors |= {"unit": torch.tensor(self._unit, dtype=torch.float64), "returns": self._returns}
        if self.relabelled is not None:
            tensors |= {f"relabelled.{k}": v for k, v in self.relabelled.state().items()}
        return tensors, {"num_steps": self.num_steps, "num_updates": self.num_updates}

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        """The inverse of `state`."""
        self.num_steps, self.num_updates = counts["num_steps"], counts["num_updates"]
        self.agent.load_state_dict(within(tensors, "learner.agent."))
        self._target.load_state_dict(within(tensors, "target."))
        self.actor.psi.load_state_dict(within(tensors, "acting."))
        if (
            self.num_steps or self.actor.can_checkpoint_envs
        ):  # at step 0 all are where a new actor begins
            self.actor.load_state(within(tensors, "actor."), self.num_steps)
        with torch.no_grad():
            self._offset.copy_(tensors["offset"])
        load_moments(self._optimiser, within(tensors, "adam."))
        self._random.set_state(tensors["random"])
        self._unit, returns = float(tensors["unit"]), tensors["returns"]
        if not 0 < self._unit < math.inf:
            raise ValueError(f"its unit is {self._unit}")
        if returns.shape != self._returns.shape or returns.dtype != self._returns.dtype:
            raise ValueError("its returns are of other environments")
        self._returns = returns
        for name, tensor in tensors.items():
            is_used = name == "returns" or name.startswith(("target.", "acting.", "offset"))
            if is_used and not bool(tensor.isfinite().all()):
                raise ValueError(f"{name} is not finite")
        if self.relabelled is not None:
            self.relabelled.load_state(within(tensors, "relabelled."))
