"""The fine-tuning job: acts on the reward, fills the replay buffer, and trains the Q-learner."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import torch
from gymnasium.spaces import Discrete
from numpy.typing import NDArray
from torch import Tensor

from visr import config as configuration
from visr import envs
from visr.agents.base import BehaviourModel
from visr.agents.refined import RefinedAgent
from visr.config import FinetuneConfig, RunConfig
from visr.envs.episodes import EpisodeReturns, EpisodeSteps
from visr.finetuning.q_learner import QLearner
from visr.finetuning.relabelling import RelabelledSteps
from visr.inference.asked_reward import AskedReward
from visr.networks.residual_values import ResidualValues
from visr.ops import derived_seed
from visr.training import devices
from visr.training.actor import Actor
from visr.training.learner import concatenate, within
from visr.training.loop import Round
from visr.training.replay import ReplayBuffer
from visr.types import EnvSpec, Unroll

_WARM_UP = 2_000
"""Steps before the first update; the scale of rewards is estimated from them."""
_ACTOR_SEED = 4
"""Differs from the seeds of evaluation, so that the episodes differ, too."""


class FineTuner:
    """Rounds of acting and Q-learning.

    With `free_steps`, most updates use reward-free steps that a reward model labels (`relabelling`).
    """

    def __init__(
        self,
        agent: BehaviourModel,
        config: RunConfig,
        settings: FinetuneConfig,
        w: NDArray,
        saved: NDArray,
        asked: AskedReward | None,
        pretrained: BehaviourModel | None = None,
        residual: ResidualValues | None = None,
    ) -> None:
        """`saved` [P, d]: w and the other tasks that GPI uses at first; `asked`: None for the env's.

        `residual`: what a refined task adds to psi . w.
        """
        self.agent, self.config, self.settings = agent, config, settings
        self._w = torch.as_tensor(w, dtype=torch.float32)
        self._policies = torch.as_tensor(saved, dtype=torch.float32)
        self._asked = asked
        acting = configuration.replace(
            config,
            unroll_length=settings.unroll_length,
            gpi=False,
            epsilon=settings.epsilon,
            task_steps=0,
        )
        env, pretrained = envs.make_vec(config, settings.num_envs), pretrained or agent
        first = pretrained if residual is None else RefinedAgent(pretrained, residual, self._w)
        self.actor = Actor(acting, env, first, derived_seed(settings.seed, _ACTOR_SEED))
        clips = config.inference.clip_rewards and asked is None
        self.learner = QLearner(agent, settings, self._w, clips, residual)
        self.relabelled = (
            RelabelledSteps(pretrained, config, settings, self.learner.clipped)
            if settings.free_steps
            else None
        )
        self.replay = ReplayBuffer(
            max(settings.replay_steps // settings.unroll_length, 1),
            self.actor.empty_unroll(self._w),
            check=lambda unroll: _refuse_impossible(unroll, agent.spec),
        )
        self._rng = torch.Generator().manual_seed(settings.seed)
        self._returns = EpisodeReturns(settings.num_envs)
        self.num_steps = 0

    @property
    def total_steps(self) -> int:
        """Rewarded steps of the whole fine-tuning."""
        return self.settings.num_steps

    @property
    def num_updates(self) -> int:
        """Updates so far."""
        return self.learner.num_updates

    @property
    def is_done(self) -> bool:
        """Whether all rewarded steps and all updates on free steps alone have been made."""
        return self.num_steps >= self.total_steps and not self._is_catching_up

    def rounds(self) -> Generator[Round]:
        devices.keep_freed_memory()
        with devices.training_arithmetic(self.config.training):
            while not self.is_done:
                is_reported = self.num_steps < self.total_steps  # no row follows the last step's
                report = self.round()
                yield Round(self.num_updates, [report] if is_reported else [], self.note)

    def extra_rows(self) -> dict[str, dict[str, float]]:
        """No tables beside metrics.csv."""
        return {}

    def close(self) -> None:
        self.actor.env.close()

    def round(self) -> dict[str, float]:
        """One unroll of every environment, then some updates on the replay buffer.

        With free steps, the first rounds only collect them, and some later rounds only learn from them.
        """
        relabelled = self.relabelled
        if relabelled is not None and not relabelled.is_collected:
            relabelled.collect()
            return {}
        if self._is_catching_up:
            return self._learn()
        was_ready, unroll = self._is_ready, self._act()
        if relabelled is not None:
            relabelled.observe_rewards(unroll)
        self.replay.add(unroll)
        self.num_steps += unroll.num_steps
        report = self._report(unroll)
        if not self._is_ready:
            return report
        if not was_ready and not self.settings.from_scratch:
            self.learner.estimate_unit(self.replay.all())
        if relabelled is not None:
            relabelled.train_model(self.replay, self._rng)
            if (r_squared := relabelled.r_squared) is not None:
                report["foreseen"] = r_squared
        return {**report, **self._learn()}

    @property
    def note(self) -> str:
        """What it is doing while no rewarded step is made."""
        if self.relabelled is not None and not self.relabelled.is_collected:
            done, total = self.relabelled.num_steps, self.relabelled.total_steps
            return f"gathering: {done:,} of {total:,} reward-free steps"
        if self._is_catching_up:
            return f"learning from them: {self.num_updates:,} of {self.settings.free_updates:,} updates"
        return ""

    @property
    def _is_ready(self) -> bool:
        """Whether the replay buffer holds enough to learn from."""
        if self.relabelled is not None:
            return not self._is_sweeping
        return self.num_steps >= min(_WARM_UP, self.settings.num_steps)

    @property
    def _is_sweeping(self) -> bool:
        """Whether to act for random tasks: for `sweep_steps`; with free steps also until the first reward."""
        if self.relabelled is None:
            return self.num_steps < self.settings.sweep_steps and not self.settings.from_scratch
        least = min(max(self.settings.sweep_steps, _WARM_UP), self.settings.num_steps)
        return self.num_steps < least or not self.relabelled.has_seen_rewards

    @property
    def _is_catching_up(self) -> bool:
        """Whether Q must still learn from free steps alone before it acts."""
        has_model = self.relabelled is not None and self._is_ready
        return has_model and self.num_updates < self.settings.free_updates

    def _act(self) -> Unroll:
        """One unroll of every environment for w, with the asked reward.

        Random tasks come first: Q-learning is off-policy, so w learns from these steps, too.
        """
        if self._is_sweeping:
            relabelled = self.relabelled
            epsilon = relabelled.epsilon(self._rng) if relabelled else self.settings.epsilon
            unroll = self._with_task(self.actor.collect(epsilon=epsilon))
        else:
            unroll = self._pursue()
        return self._with_reward(unroll)

    def _pursue(self) -> Unroll:
        """Act by GPI over saved tasks with the pre-trained psi, then by Q.

        From scratch, epsilon falls from 1. With free steps, Q acts from the start.
        """
        settings, epsilon = self.settings, self.settings.epsilon
        uses_gpi = False
        if self.relabelled is None and not settings.from_scratch:
            uses_gpi = self.num_steps - settings.sweep_steps < settings.gpi_steps
        elif self.relabelled is None and settings.exploration_steps:
            epsilon = max(epsilon, 1 - self.num_steps / settings.exploration_steps)
        if not uses_gpi:
            self.actor.refresh(self.learner.psi)
        policies = self._policies if uses_gpi else self._w[None]
        return self.actor.collect(self._w, policies=policies, epsilon=epsilon)

    def _with_task(self, unroll: Unroll) -> Unroll:
        """The same steps, labelled with w."""
        return unroll._replace(w=self._w.expand(unroll.num_unrolls, -1).contiguous())

    def _with_reward(self, unroll: Unroll) -> Unroll:
        """The same steps with the asked reward."""
        if self._asked is None:
            return unroll
        before, reached = (
            x.flatten(0, 1).numpy() for x in (unroll.observation[:-1], unroll.observation[1:])
        )
        action, own = unroll.action.flatten().numpy(), unroll.reward.flatten().numpy()
        steps = EpisodeSteps(np.zeros(len(action), np.intp), before, action, reached, own)
        asked = torch.from_numpy(self._asked.of(steps)).float().view_as(unroll.reward)
        return unroll._replace(reward=asked.masked_fill(unroll.is_reset, 0))

    def _report(self, unroll: Unroll) -> dict[str, float]:
        """The round's mean reward, and the mean return of the episodes that ended in it."""
        finished = self._returns.add(unroll.reward, unroll.is_reset)
        report = {"reward": float(unroll.mean_over_steps(unroll.reward))}
        if finished:
            report["return"] = sum(finished) / len(finished)
        return report

    def _learn(self) -> dict[str, float]:
        updates = range(self.settings.updates_per_round)
        losses = [self.learner.update(self._batch()) for _ in updates]
        return {"loss": float(torch.stack(losses).mean())}

    def _batch(self) -> Unroll:
        """Free and rewarded unrolls in their shares; only free ones while Q catches up."""
        count, num_free = self.settings.batch_size, 0
        parts = []
        if self.relabelled is not None:
            num_free = count if self._is_catching_up else round(count * self.settings.free_share)
            if num_free:
                parts.append(self._with_task(self.relabelled.sample(num_free, self._rng)))
        if num_free < count:
            parts.append(self.replay.sample(count - num_free, self._rng))
        return concatenate(parts)

    @property
    def can_save_now(self) -> bool:
        """Whether a rewarded step was made: the first checkpoint holds all that is before it."""
        return self.num_steps > 0

    def reset_unsaveable_envs(self) -> None:
        if self.actor.reset_unsaveable_envs(self.num_steps):
            self._returns.clear()

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """All but the replay buffer."""
        tensors = self.learner.state()
        tensors |= {f"actor.{k}": v for k, v in self.actor.state().items()}
        tensors |= {f"acting.{k}": v for k, v in self.actor.psi.state_dict().items()}
        tensors |= {"random": self._rng.get_state(), "returns": self._returns.running}
        if self.relabelled is not None:
            tensors |= {f"relabelled.{k}": v for k, v in self.relabelled.state().items()}
        return tensors, {"num_steps": self.num_steps, "num_updates": self.num_updates}

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        """The inverse of `state`; a ValueError if a tensor does not fit."""
        self.num_steps = counts["num_steps"]
        self.replay.expect(self.num_steps // self.settings.unroll_length)
        self.learner.load_state(tensors, counts["num_updates"])
        self.actor.psi.load_state_dict(within(tensors, "acting."))
        if self.num_steps or self.actor.can_checkpoint_envs:  # at step 0 a new actor is the same
            self.actor.load_state(within(tensors, "actor."), self.num_steps)
        self._rng.set_state(tensors["random"])
        returns, mine = tensors["returns"], self._returns.running
        if returns.shape != mine.shape or returns.dtype != mine.dtype:
            raise ValueError("its returns have another shape or type")
        self._returns.running = returns
        for name, tensor in tensors.items():
            is_used = name == "returns" or name.startswith(("target.", "acting.", "offset"))
            if is_used and not bool(tensor.isfinite().all()):
                raise ValueError(f"{name} is not finite")
        if self.relabelled is not None:
            self.relabelled.load_state(within(tensors, "relabelled."))


def _refuse_impossible(unroll: Unroll, spec: EnvSpec) -> None:
    """Reject unrolls from disk with values that would fail, or mislead, at a later update."""
    space, num_actions = spec.observation_space, spec.num_actions
    bounds = {"action": (0, num_actions), "previous_action": (-1, num_actions)}
    if isinstance(space, Discrete):
        bounds["observation"] = (0, int(space.n))
    for name, (least, end) in bounds.items():
        numbers = getattr(unroll, name)
        if not bool(((numbers >= least) & (numbers < end)).all()):
            raise ValueError(f"its {name} is not one of {end}")
    if not bool(unroll.reward.isfinite().all()):
        raise ValueError("its reward is not finite")
