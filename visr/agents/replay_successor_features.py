"""Successor features from a replay buffer: many tasks an update, a library of policies for GPI.

As in VISR, rewards are linear in features, psi(s, a, w) sums the features under the policy of w, GPI
improves on it, and w is a regression. Not VISR's: the features chi(s, a, s') are fixed, psi learns off-policy
from recorded steps, and practises tasks that the recorded steps suggest.
"""

from __future__ import annotations

import copy
import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from visr.agents.base import BehaviourModel, Losses
from visr.agents.lstd import fitted_readouts
from visr.config.fields import AgentConfig
from visr.config.replay import ReplayConfig
from visr.networks import replay_trunks, transition_features
from visr.networks.factored_successor import FactoredSuccessorFeatures, UnderTasks
from visr.networks.plane_trunk import PlaneTrunk
from visr.networks.replay_trunks import ManyStatesTrunk
from visr.networks.successor import FoldedReadout
from visr.networks.transition_features.base import TransitionFeatures, of_unroll
from visr.networks.transition_features.events import PlaneEvents
from visr.networks.transition_features.laplacian import LaplacianStates, slowness
from visr.types import EnvSpec, Transitions, Unroll


class TaskBatch(NamedTuple):
    """N recorded steps to be learnt from under M tasks."""

    observation: Tensor
    """[N, ...]"""
    action: Tensor
    """[N] int64"""
    cumulant: Tensor
    """[N, d]: discounted sum over up to n steps"""
    discount: Tensor
    """[N]: of what follows; 0 where the episode ended"""
    next_observation: Tensor
    """[N, ...], up to n steps later"""
    w: Tensor
    """[M, d]"""


class ReplaySuccessorFeatures(BehaviourModel):
    """chi(s, a, s'): fixed features of a step.  psi(s, a, w): their discounted sums under the policy of w."""

    packed_parts = ("chi", "psi", "library", "library_readout", "rate", "lift")
    prefers_regression = True

    def __init__(self, config: AgentConfig, spec: EnvSpec, replay: ReplayConfig) -> None:
        super().__init__(config, spec)
        self.replay = replay
        size = config.num_features
        self.chi = self._features().requires_grad_(False)
        self.psi: FactoredSuccessorFeatures = FactoredSuccessorFeatures(  # pyright: ignore
            replay_trunks.trunk(
                spec.observation_space,
                config.torso,
                size,
                replay.smooth_states and isinstance(self.chi, LaplacianStates),
            ),
            spec.num_actions,
            size,
            replay.psi_width,
            scale=self.chi.typical_return(config.gamma),
        )
        self.target_psi: FactoredSuccessorFeatures = copy.deepcopy(self.psi)  # pyright: ignore
        self.target_psi.requires_grad_(False)
        self.library: Tensor
        self.rate: Tensor
        self.lift: Tensor
        self.register_buffer("library", torch.zeros(replay.library_size, size))
        self.register_buffer("rate", torch.zeros(size))
        self.register_buffer("lift", torch.ones(size))
        self.library_readout: Tensor | None
        shape = (replay.library_size, replay.psi_width + 1, size)
        self.register_buffer(
            "library_readout", torch.zeros(shape) if replay.library_steps else None
        )

    def _features(self) -> TransitionFeatures:
        """The configured features of a step."""
        replay, size = self.replay, self.config.num_features
        return transition_features.build(
            replay.transition_features,
            self.spec,
            size,
            self.config.gamma,
            replay.feature_updates,
            replay.smooth_states,
        )

    @property
    def features_of_states(self) -> bool:
        """Whether the features of a step are those of the state that it reaches, and of the end."""
        return self.chi.of_states

    @property
    def features_of_pairs(self) -> bool:
        """Whether features count events between two observations."""
        return self.chi.counts_events

    def load_packed(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `packed`; refuse numbers of planes and events that do not exist."""
        super().load_packed(tensors)
        for part in (self.chi, self.psi.observation):
            if isinstance(part, PlaneEvents | PlaneTrunk):
                part.check()

    @property
    def task_size(self) -> int:
        """d, the length of w and of chi."""
        return self.config.num_features

    # Acting: GPI over w and the library.

    @property
    def _is_known(self) -> Tensor:
        """[library size]: the rows of the library that hold a task."""
        return self.library.abs().sum(dim=1) > 0

    @property
    def known_tasks(self) -> Tensor:
        """[L, d]: the library; before training one arbitrary task."""
        filled = self.library[self._is_known]
        return filled if len(filled) else torch.eye(self.task_size, device=self.device)[:1]

    @property
    def _is_fitted(self) -> bool:
        """Whether the policies of the library have last layers of their own."""
        fitted = self.library_readout
        return fitted is not None and bool(fitted[0, -1].any())

    @property
    def _library_is_complete(self) -> bool:
        """Whether the library has every state, with fitted values: then GPI leaves out w's own policy.

        The network's values are too large in places, so that GPI would prefer it to better ones.
        """
        return self._is_fitted and not self.chi.counts_events and not bool(self._is_known.all())

    def sample_tasks(self, num_tasks: int, rng: Generator | None) -> Tensor:
        """Tasks of the library, of unit length: [N, d]."""
        known = self.known_tasks.cpu()
        chosen = known[torch.randint(len(known), (num_tasks,), generator=rng)]
        return chosen / chosen.norm(dim=1, keepdim=True)

    def sample_policies(self, w: Tensor, rng: Generator | None, gpi: bool | None = None) -> Tensor:
        """w and the library, or a complete library alone: [..., d] -> [..., P, d]; without GPI w alone."""
        own = w.unsqueeze(-2)
        if not (self.config.gpi if gpi is None else gpi):
            return own
        known = self.known_tasks.to(w.device)
        if self._library_is_complete:
            return known.expand(*w.shape[:-1], *known.shape)
        if _is_one_task(w):  # psi reads its policies once for all states
            return torch.cat([w[:1], known]).expand(len(w), -1, -1)
        return torch.cat([own, known.expand(*w.shape[:-1], *known.shape)], dim=-2)

    def action_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """max_i psi(s, a, w_i) . w over w itself and the library."""
        return self.psi.gpi_values(hidden, policies, readout)

    def readout(self, w: Tensor, gpi: bool | None = None) -> FoldedReadout:
        """One column for all policies; with a fitted library one for each: [N, width, P], [N, P]."""
        tasks = self.psi.of_policies(self.sample_policies(w, None, gpi))
        own = self.psi.fold(w)._replace(tasks=tasks)
        if not (self.config.gpi if gpi is None else gpi) or not self._is_fitted:
            return own
        assert self.library_readout is not None
        fitted = self.library_readout[self._is_known]
        rows = torch.einsum("lhd,nd->nhl", fitted, w[:1] if _is_one_task(w) else w)
        weight, bias = rows[:, :-1].expand(len(w), -1, -1), rows[:, -1].expand(len(w), -1)
        if self._library_is_complete:
            return FoldedReadout(weight, bias, tasks)
        weight = torch.cat([own.weight, weight], dim=-1)
        return FoldedReadout(weight, torch.cat([own.bias, bias], dim=-1), tasks)

    def values_of_tasks(
        self, hidden: Tensor, w: Tensor, rng: Generator | None = None, gpi: bool | None = None
    ) -> Tensor:
        """Reads every policy of the library once for all tasks."""
        best = super().values_of_tasks(hidden, w, rng, gpi=False)
        if not (self.config.gpi if gpi is None else gpi):
            return best
        if self._library_is_complete:
            best.fill_(-torch.inf)
        w, known, fitted = w.to(self.device), self.known_tasks.to(self.device), None
        weight, bias = (part.squeeze(-1) for part in self.psi.fold(w)[:2])
        if self._is_fitted:
            assert self.library_readout is not None
            fitted = self.library_readout[self._is_known]
        for k, of_policy in enumerate(self.psi.of_tasks(known)):
            joined = (self.psi.of_actions(hidden) + of_policy).relu_()
            if fitted is not None:
                rows = w @ fitted[k].T
                weight, bias = rows[:, :-1], rows[:, -1]
            values = (joined.flatten(0, 1) @ weight.T + bias).view(*joined.shape[:2], -1)
            best = torch.maximum(best, values.movedim(-1, 0), out=best)
        return best

    @torch.no_grad()
    def fit_library(self, recorded: Unroll) -> None:
        """Fit a last layer for every policy of the library to recorded steps."""
        if self.library_readout is None:
            return
        steps, known = of_unroll(recorded), self._is_known
        self.library_readout.zero_()
        self.library_readout[known] = fitted_readouts(
            self.psi, self.library[known], steps, self.cumulant(steps), self.config.gamma
        )

    @torch.no_grad()
    def forget_fitted_library(self) -> None:
        """Drop the fitted last layers, because psi learns on."""
        if self.library_readout is not None:
            self.library_readout.zero_()

    # Learning: N recorded steps under M tasks.

    def losses(self, unroll: Unroll | TaskBatch) -> Losses:
        """Errors e of psi: |e|^2 and (e . w)^2, each weighed by the size of the task's values.

        The first costs most of the time, so it is learnt under some of the tasks only.
        """
        assert isinstance(unroll, TaskBatch)
        batch, size, some = unroll, float(self.chi.num_used), self.replay.whole_psi_tasks
        unit = math.sqrt(size / self.task_size)
        with torch.no_grad():
            after = self.values_after(batch, some)
            y = batch.cumulant + after.psi * batch.discount[None, :, None]
            value_y = batch.w @ batch.cumulant.T + after.value * batch.discount
            value = after.value * unit
            psi_size = (after.psi.square().sum(dim=2).mean(dim=1) / size).sqrt()
            vector_weight = 1 / (size * (psi_size + 1))
            value_weight = 1 / (size * (value.square().mean(dim=1).sqrt() + size))
        hidden = self.psi.first_step(batch.observation)
        now = self.psi.of_steps(hidden, batch.action, batch.w, some)
        vector_loss = ((now.psi - y).square().sum(dim=2).mean(dim=1) * vector_weight).mean()
        along_w = (now.value - value_y) * unit
        value_loss = (along_w.square().mean(dim=1) * value_weight).mean()
        loss = vector_loss + self.config.value_weight * value_loss
        metrics = {
            "psi_loss": vector_loss.detach(),
            "value_loss": value_loss.detach(),
            "value": value.mean() / size,
        }
        return Losses(loss, loss.new_zeros(()), metrics)

    def values_after(self, batch: TaskBatch, num_whole: int | None = None) -> UnderTasks:
        """The target network's psi of the policies of all tasks in the states that were reached."""
        hidden = self.target_psi.first_step(batch.next_observation)
        return self.target_psi.greedy(hidden, batch.w, num_whole, self.replay.target_temperature)

    @torch.no_grad()
    def move_target(self) -> None:
        """Move the target network a step towards psi."""
        for target, source in zip(self.target_psi.parameters(), self.psi.parameters(), strict=True):
            target.lerp_(source, self.replay.target_rate)

    def start_afresh(self, fresh: ReplaySuccessorFeatures) -> None:
        """Take the weights of a new agent; features that learn in `fit` keep theirs."""
        self.psi.load_state_dict(fresh.psi.state_dict())
        self.refresh_target()

    @torch.no_grad()
    def fit(self, recorded: Unroll) -> None:
        """Fit features and the trunk's statistics to recorded unrolls; psi must learn afresh after it."""
        steps = of_unroll(recorded)
        self.chi.fit(recorded)
        for psi in (self.psi, self.target_psi):
            psi.observation.fit(steps)
            if isinstance(psi.observation, ManyStatesTrunk):
                states = torch.arange(len(psi.observation.features), device=self.device)
                sums = slowness(self.chi, steps, self.config.gamma)
                psi.observation.fit_features(self.chi(Transitions(states)), sums)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """psi's; the features do not learn."""
        return {"psi": list(self.psi.parameters())}

    # Task inference: r ~ chi . w.

    def cumulant(self, steps: Transitions) -> Tensor:
        """chi(s, a, s'), [N, d]."""
        return self.chi(steps)

    def cumulants(self, unroll: Unroll) -> Tensor:
        """chi at every step of unrolls, [T, B, d]."""
        seen, shape = unroll.observation, unroll.action.shape
        flat = (x.flatten(0, 1) for x in (seen[1:], seen[:-1], unroll.action, unroll.terminated))
        return self.chi(Transitions(*flat)).unflatten(0, shape)


def _is_one_task(w: Tensor) -> bool:
    """Whether [N, d] is one task for all of N states."""
    return w.dim() == 2 and w.stride(0) == 0
