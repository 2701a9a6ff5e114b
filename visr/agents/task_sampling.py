"""Tasks that the replay learner practises: recorded steps as goals, stretches of them, events, Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.config.replay import CANDIDATES

STRETCH_SAMPLES = 16
"""Steps that stand for one stretch of recorded steps."""
_PARTS = 3
"""Stretches or events that a task sums at most."""
_ENDS_SHARE = 0.1
"""Share of event tasks that only avoid the end."""
_LEAST_LIFT = 1.1
_UNIFORM_SHARE = 0.15


def scaled(w: Tensor) -> Tensor:
    """w at the length sqrt(d), which psi practises: [..., d]."""
    length = w.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    return w / length * math.sqrt(w.shape[-1])


Recorded = Callable[[int, int], Tensor]
"""(N, L) -> chi of N stretches of L recorded steps each, [N, L, d]."""


def practised(
    agent: ReplaySuccessorFeatures, num_tasks: int, recorded: Recorded, rng: Generator
) -> Tensor:
    """[N, d], in random order."""
    replay, d = agent.replay, agent.task_size
    goals, stretches, constants = (
        round(num_tasks * share)
        for share in (replay.goal_share, replay.stretch_share, replay.constant_share)
    )
    rest = max(num_tasks - goals - stretches - constants, 0)
    gaussian = torch.randn(rest, d, generator=rng)
    if agent.chi.counts_events:
        tasks = torch.cat([events(agent, goals, rng), sums(agent, stretches, rng), gaussian])
        tasks[len(tasks) - len(gaussian) :] *= _used(agent)
    else:
        few = sums_of_stretches(recorded(stretches * _PARTS, STRETCH_SAMPLES), rng)
        tasks = scaled(torch.cat([goal_tasks(agent, recorded, goals, rng), few, gaussian]))
        tasks = _with_ends(agent, tasks, rng)
    tasks = scaled(torch.cat([tasks, constant_tasks(agent, constants, rng)]))
    return tasks[torch.randperm(len(tasks), generator=rng)][:num_tasks]


def rarest(agent: ReplaySuccessorFeatures, recorded: Recorded, count: int, among: int) -> Tensor:
    """[N, among, d]: recorded steps, the rarest of each group first, whether or not the episode ends."""
    chi = recorded(count * among, 1).view(count, among, -1)
    seen = chi.clone()
    for special in (agent.chi.constant, agent.chi.end):
        if special is not None:
            seen[..., special] = 0
    order = seen.square().sum(dim=-1).argsort(dim=1, descending=True)
    return chi.gather(1, order.unsqueeze(-1).expand_as(chi))


def goal_tasks(
    agent: ReplaySuccessorFeatures, recorded: Recorded, count: int, rng: Generator
) -> Tensor:
    """Recorded steps to repeat, [N, d]: every second one the rarest of four."""
    chi = rarest(agent, recorded, count, 4)
    any_of = torch.rand(count, generator=rng) < 0.5
    which = torch.randint(4, (count,), generator=rng)
    return chi[torch.arange(count), torch.where(any_of, which, 0)]


def sums_of_stretches(chi: Tensor, rng: Generator) -> Tensor:
    """One to three stretches with weights of 0.3 to 1.3: [3 N, L, d] -> [N, d]."""
    means = chi.mean(dim=1).view(-1, _PARTS, chi.shape[-1])
    count = torch.randint(1, _PARTS + 1, (len(means), 1), generator=rng)
    weight = torch.rand(len(means), _PARTS, generator=rng) + 0.3
    weight = weight * (torch.arange(_PARTS) < count)
    return (means * weight.unsqueeze(-1)).sum(dim=1)


def _with_ends(agent: ReplaySuccessorFeatures, w: Tensor, rng: Generator) -> Tensor:
    """Half of the tasks also pay for every step and for the end, where features tell both."""
    constant, end = agent.chi.constant, agent.chi.end
    if constant is None or end is None:
        return w
    noise = torch.randn(len(w), 2, generator=rng) * math.sqrt(w.shape[-1]) * 0.75
    noise *= (torch.rand(len(w), 1, generator=rng) < 0.5).float()
    w[:, constant] += noise[:, 0]
    w[:, end] += noise[:, 1] * 0.3
    return w


def constant_tasks(agent: ReplaySuccessorFeatures, count: int, rng: Generator) -> Tensor:
    """Tasks that pay 1 or -1 for every step, half of them with some noise: [N, d]."""
    w = torch.zeros(count, agent.task_size)
    if agent.chi.constant is None:
        return torch.randn(count, agent.task_size, generator=rng)
    noise = torch.randn(count, agent.task_size, generator=rng) * 0.3 / math.sqrt(agent.task_size)
    w += noise * (torch.arange(count) % 4 >= 2)[:, None]
    w[:, agent.chi.constant] = torch.where(torch.arange(count) % 2 == 0, 1.0, -1.0)
    return w


# ---- events


def event_weights(agent: ReplaySuccessorFeatures) -> Tensor:
    """[d], how often each event is practised: rare ones and those that the agent can bring about."""
    used = _used(agent).clone()
    if agent.chi.end is not None:
        used[agent.chi.end] = 0
    control = (agent.lift - 1).clamp(0, 1) * (agent.lift >= _LEAST_LIFT)
    wanted = used * (agent.rate + 0.005) ** -0.25 * control
    uniform = used / used.sum().clamp(min=1)
    total = wanted.sum()
    if total <= 0:
        return uniform
    return (1 - _UNIFORM_SHARE) * wanted / total + _UNIFORM_SHARE * uniform


def events(agent: ReplaySuccessorFeatures, count: int, rng: Generator) -> Tensor:
    """One event each, some of them while avoiding the end; and a few that only avoid it: [N, d]."""
    w = torch.zeros(count, agent.task_size)
    if not count:
        return w
    weights = event_weights(agent)
    if weights.sum() > 0:
        chosen = torch.multinomial(weights, count, replacement=True, generator=rng)
        w[torch.arange(count), chosen] = 1.0
    if agent.chi.end is not None:
        only = torch.rand(count, generator=rng) < _ENDS_SHARE
        avoided = torch.tensor([0.0, 0.5, 1.0])[torch.randint(3, (count,), generator=rng)]
        w[only] = 0
        w[:, agent.chi.end] = -torch.where(only, 1.0, avoided)
    return w


def sums(agent: ReplaySuccessorFeatures, count: int, rng: Generator) -> Tensor:
    """Two or three events with weights of 0.3 to 1.3, one in four of them negative: [N, d]."""
    parts = scaled(events(agent, count * _PARTS, rng)).view(count, _PARTS, -1)
    weight = torch.rand(count, _PARTS, generator=rng) + 0.3
    weight *= torch.where(torch.rand(count, _PARTS, generator=rng) < 0.25, -1.0, 1.0)
    weight[:, -1] *= (torch.rand(count, generator=rng) < 0.5).float()
    return (parts * weight.unsqueeze(-1)).sum(dim=1)


def _used(agent: ReplaySuccessorFeatures) -> Tensor:
    """[d]: 1 for features that stand for an event."""
    return (agent.chi.event >= 0).float()  # pyright: ignore


def library(agent: ReplaySuccessorFeatures, recorded: Recorded, rng: Generator) -> Tensor:
    """Tasks whose policies GPI consults: each event, or distinct recorded steps; [library size, d]."""
    size, d = agent.replay.library_size, agent.task_size
    kept = torch.zeros(size, d)
    if agent.chi.counts_events:
        found = torch.eye(d)[_used(agent) > 0]
        if agent.chi.end is not None:
            found[-1] *= -1
    else:
        chi = recorded(CANDIDATES * size, 1).squeeze(1)
        found = torch.unique(chi, dim=0)
        found = found[torch.randperm(len(found), generator=rng)]
        if agent.chi.constant is not None:
            found = torch.cat([constant_tasks(agent, 2, rng), found])
    found = scaled(found[:size])
    kept[: len(found)] = found
    return kept
