"""Refine a task's policy offline: Q-learning on recorded steps, labelled with the asked reward.

Q(s, a) = psi(s, a, w) . w + residual(s, a): psi is frozen, the residual is 0 at the start. After every slice
of updates the greedy policy is compared with the best one so far on held-out episodes (`policy_value`). The
best one is kept, so that by this estimate the result is never worse than the policy that was given.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from visr.agents.base import BehaviourModel
from visr.errors import UserError
from visr.finetuning.offline_q import RATE, BaseValues, NetworkLearner, OfflineLearner
from visr.finetuning.offline_steps import OfflineSteps, split
from visr.finetuning.policy_value import (
    POLICIES,
    FittedEvaluation,
    PolicyEvaluation,
    PolicyValue,
    is_better,
)
from visr.finetuning.reward_labels import Labels
from visr.finetuning.tabular_q import TableEvaluation, TableLearner, TableModel
from visr.networks.residual_values import ResidualValues
from visr.ops import derived_seed
from visr.storage import schema
from visr.storage.records.refinement import Refinement
from visr.storage.records.task import Task
from visr.types import Transitions

_LAST_RATE = 0.02
_SWEEPS, _UPDATES = 20, 250
"""Updates between two estimates: sweeps over tables, and gradient steps."""
_PATIENCE = 8
"""Slices without a better policy after which the learning rate falls, and then refinement is done."""
_SAMPLE, _SAMPLE_BYTES = 10_000, 2**27
_FEWEST_STEPS = 20
_SMALLEST_CORRELATION = 0.2
_ROWS_AT_ONCE = 1_024


@dataclass(frozen=True)
class Limit:
    """When to stop: after so many updates, after so many seconds, or when it believes it is done."""

    num_updates: int | None = None
    seconds: float | None = None

    def progress(self, num_updates: int, seconds: float) -> float:
        """The share that is over, 0 to 1; 0 without a limit."""
        if self.num_updates is not None:
            return min(num_updates / self.num_updates, 1.0)
        return 0.0 if self.seconds is None else min(seconds / self.seconds, 1.0)

    @property
    def is_open(self) -> bool:
        """Whether nothing but being done ends it."""
        return self.num_updates is None and self.seconds is None


@dataclass(frozen=True)
class Slice:
    """What is known after a slice of updates: the fields of `Refinement` of these names."""

    num_updates: int
    given: float
    """Estimated discounted reward per step of the policy that was given."""
    value: float
    """The same of the best policy so far."""
    gain: float
    """value - given, estimated on the same held-out states."""
    gain_error: float
    """Standard error of the gain over held-out episodes."""
    is_done: bool
    """Whether more updates are unlikely to help."""
    held_out_steps: int
    matching_steps: int
    """Held-out steps whose recorded action is that of the best policy."""
    changed: float
    """Share of held-out steps where the best policy acts otherwise than the given one."""


class Refiner:
    """Refines the policy of one task from recorded steps with rewards [N]."""

    def __init__(
        self,
        agent: BehaviourModel,
        w: Tensor,
        steps: OfflineSteps,
        reward: Tensor,
        *,
        gpi: bool,
        seed: int = 0,
        start: ResidualValues | None = None,
        learner: Mapping[str, NDArray] | None = None,
        started: float | None = None,
        n_step: int | None = None,
    ) -> None:
        """`gpi`: whether the given policy acts by GPI; `start`, `learner`: an earlier result to continue;
        `n_step`: of the targets, by default the run's own."""
        self._started = time.perf_counter() if started is None else started
        require(agent, steps, reward)
        self._agent, self._w, self._gpi = agent, w.to(agent.device), gpi
        self._n_step = n_step or agent.config.n_step
        self._rng = torch.Generator().manual_seed(derived_seed(seed, 8))
        held, self._steps, self._held = split(steps, seed)
        self._sample = self._sampled_steps()
        self._base = BaseValues(agent, self._w, steps)
        self._set_units(reward[~held])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, 9))
            self._learner, self._evaluation = self._new_parts(reward / self._unit, held, start)
        self.best = start
        """The residual of the best policy; None while it is the given one."""
        self.num_updates = 0
        self._best_actions = None if start is None else self._learner.actions(self._evaluation.rows)
        if learner:
            with schema.refusing(
                "The refinement does not fit this run", "refine it again without resume"
            ):
                self._learner.load_state({k: torch.tensor(v) for k, v in learner.items()})

    def _sampled_steps(self) -> Transitions:
        """Some steps, for statistics."""
        most = min(_SAMPLE, _SAMPLE_BYTES // self._steps.bytes_each)
        chosen = torch.randperm(len(self._steps), generator=self._rng)[:most]
        self._chosen, steps = chosen, self._steps
        before, after = (steps.observations(x[chosen]) for x in (steps.before, steps.after))
        return Transitions(after, before, steps.action[chosen], steps.terminated[chosen])

    def _set_units(self, reward: Tensor) -> None:
        """Rewards in units of their typical size; r ~ slope * c . w + rest scales and shifts psi . w.

        A slope that is too small (w explains little of r) would make the first values useless.
        """
        device, size = self._agent.device, len(self._chosen)
        parts = [
            Transitions(
                *(x[i : i + _ROWS_AT_ONCE].to(device) for x in self._sample if x is not None)
            )
            for i in range(0, size, _ROWS_AT_ONCE)
        ]
        with torch.no_grad():
            x = torch.cat([(self._agent.cumulant(part) @ self._w).cpu() for part in parts])
        r = reward[self._chosen]
        self._unit = float(reward[reward != 0].square().mean().sqrt())
        spread, spread_r = max(float(x.std()), 1e-6), max(float(r.std()), 1e-6 * self._unit)
        covariance = float(((x - x.mean()) * (r - r.mean())).mean())
        correlation = max(covariance / (spread * spread_r), _SMALLEST_CORRELATION)
        slope = correlation * spread_r / spread / self._unit
        self._factor = slope
        rest = float(r.mean()) / self._unit - slope * float(x.mean())
        self._base.rescale(slope, rest / (1 - self._agent.config.gamma))

    def _new_parts(
        self, reward: Tensor, held: Tensor, start: ResidualValues | None
    ) -> tuple[OfflineLearner, PolicyEvaluation]:
        """The learner and the estimator: tables for numbered states, else networks."""
        config, steps = self._agent.config, (self._steps, self._held)
        residual = self._new_network(1)
        if start is not None:
            residual.load_state_dict(start.state_dict())
            residual.scale.mul_(self._factor)
        if isinstance(self._held.space, spaces.Discrete):
            sizes = (config.gamma, self._agent.spec.num_actions)
            model = TableModel(steps[0], reward[~held], *sizes)
            learner = TableLearner(steps[0], model, self._base.table, residual)
            return learner, TableEvaluation(steps[1], reward[held], *sizes, model)
        critic = self._new_network(len(POLICIES))
        learner = NetworkLearner(
            *(steps[0], reward[~held], self._base, residual, self._rng),
            gamma=config.gamma,
            n=self._n_step,
        )
        return learner, FittedEvaluation(
            steps[1], reward[held], config.gamma, critic, self._base, self._rng
        )

    def _new_network(self, num_heads: int) -> ResidualValues:
        network = ResidualValues(self._agent.spec, num_heads)
        network.fit(self._sample)
        if bool(self._w.any()):
            network.read_as(self._agent.psi)
        return network

    # ---- slices

    def slices(self, limit: Limit) -> Iterator[Slice]:
        """Learn and compare until the limit; without one, until done."""
        size = _SWEEPS if isinstance(self._learner, TableLearner) else _UPDATES
        evaluation, rows = self._evaluation, self._evaluation.rows
        given, best = self._given_actions(), self._best_actions
        policies = dict.fromkeys(POLICIES, given if best is None else best) | {"given": given}
        evaluation.update(4 * size, policies)
        waited, is_slow = 0, False
        progress = limit.progress(0, 0.0)  # the first slice is always made
        while progress < 1:
            share = (0.1 if is_slow else 1.0) if limit.is_open else max(1 - progress, _LAST_RATE)
            left = size if limit.num_updates is None else limit.num_updates - self.num_updates
            self._learner.learn(min(size, left), RATE * share)
            self.num_updates += min(size, left)
            policies["candidate"] = self._learner.actions(rows)
            is_improved, values = self._compare(policies, size)
            waited = 0 if is_improved else waited + 1
            is_done = self._learner.is_converged
            if waited >= _PATIENCE:
                is_done = is_done or is_slow or not limit.is_open
                waited, is_slow = 0, True
            yield self._slice(values, policies, is_done)
            if self._learner.is_converged or (is_done and limit.is_open):
                return
            progress = limit.progress(self.num_updates, time.perf_counter() - self._started)

    @property
    def state(self) -> dict[str, NDArray]:
        """The learner's state, ready to be stored."""
        return {k: v.detach().cpu().numpy().copy() for k, v in self._learner.state().items()}

    def _compare(
        self, policies: dict[str, Tensor], num_updates: int
    ) -> tuple[bool, dict[str, PolicyValue]]:
        """Estimate all policies; the candidate becomes the best if it is better."""
        evaluation = self._evaluation
        evaluation.update(num_updates, policies)
        values = {name: evaluation.value(name, policies[name]) for name in POLICIES}
        if improves := is_better(values["candidate"], values["best"]):
            policies["best"], values["best"] = policies["candidate"], values["candidate"]
            self.best = self.latest
            evaluation.accept()
        return improves, values

    @property
    def latest(self) -> ResidualValues:
        """The residual of the policy after the latest update, to be added to psi . w."""
        residual = self._learner.residual()
        residual.scale.div_(self._factor)
        return residual

    @torch.no_grad()
    def _given_actions(self) -> Tensor:
        """What the given policy does at the held-out rows: by GPI, if the run acts so."""
        agent, parts = self._agent, []
        random = torch.Generator().manual_seed(0)
        for rows in self._evaluation.rows.split(_ROWS_AT_ONCE):
            hidden = agent.psi.first_step(self._held.observations(rows).to(agent.device))
            values = agent.values_of(hidden, self._w.cpu(), random, self._gpi)
            parts.append(values.argmax(dim=1).cpu())
        return torch.cat(parts)

    def _slice(
        self, values: dict[str, PolicyValue], policies: dict[str, Tensor], is_done: bool
    ) -> Slice:
        gain, error = values["best"].gain_over(values["given"])
        place = self._evaluation.place
        best, given = policies["best"][place], policies["given"][place]
        return Slice(
            num_updates=self.num_updates,
            given=values["given"].mean * self._unit,
            value=values["best"].mean * self._unit,
            gain=gain * self._unit,
            gain_error=error * self._unit,
            is_done=is_done,
            held_out_steps=len(best),
            matching_steps=int((best == self._held.action).sum()),
            changed=float((best != given).float().mean()),
        )


def refining(
    agent: BehaviourModel,
    task: Task,
    steps: OfflineSteps,
    labels: Labels,
    *,
    run_steps: int,
    limit: Limit,
    gpi: bool,
    seed: int = 0,
    start: ResidualValues | None = None,
    learner: Mapping[str, NDArray] | None = None,
    started: float | None = None,
) -> Iterator[Task]:
    """The task with its best policy so far and what is known about it, after every slice.

    At least one slice is made, whatever the limit.
    """
    w = torch.as_tensor(task.w, dtype=torch.float32)
    continued = {"start": start, "learner": learner, "started": started}
    refiner = Refiner(agent, w, steps, labels.reward, gpi=gpi, seed=seed, **continued)
    is_continued = task.refinement is not None and (start is not None or learner)
    earlier = task.refinement.num_updates if is_continued else 0  # pyright: ignore
    for now in refiner.slices(limit):
        best = {} if refiner.best is None else refiner.best.state_dict()
        found = Refinement(
            **{**vars(now), "num_updates": earlier + now.num_updates},
            run_steps=run_steps,
            source=steps.source,
            num_steps=len(steps),
            num_rewarded=labels.num_rewarded,
            reward_r_squared=labels.r_squared,
            weights={name: tensor.detach().cpu().numpy() for name, tensor in best.items()},
            learner=refiner.state,
        )
        yield dataclasses.replace(task, refinement=found)


def require(agent: BehaviourModel, steps: OfflineSteps, reward: Tensor) -> None:
    """Refuse what cannot be refined, and say why."""
    if agent.psi.memory_size:
        raise UserError("Refinement is for a psi without memory; pre-train with --core none.")
    if len(steps) < _FEWEST_STEPS:
        raise UserError(
            f"There are only {len(steps)} recorded steps ({steps.source}); refinement needs at least "
            f"{_FEWEST_STEPS}."
        )
    if not bool(reward.isfinite().all()):
        raise UserError("The asked reward is NaN or infinite at recorded steps; mend it first.")
    if float(reward.max()) == float(reward.min()):
        raise UserError(
            f"The asked reward is {float(reward[0]):g} at every one of {len(steps):,} recorded steps "
            f"({steps.source}), so they cannot refine its policy; keep the inferred task, or give --data "
            "with steps that reach the reward."
        )
