"""Ways from rewarded steps to w, compared on episodes that none of them has seen."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visr.errors import UserError
from visr.inference import explain, kernel_return
from visr.inference.kernel_return import Neighbours
from visr.ops.regression import Fit, RewardSums, solve

Floats = NDArray[np.float64]
RIDGES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
_HELD_OUT = 4
"""Every fourth block of episodes is held out."""
_MOST_BLOCKS = 200
_RESAMPLES = 200
_SAME = 1e-9
"""A relative difference that rounding alone can make."""
SMOOTHED = "smoothed search"
_LARGEST = 1e12
"""Of a reward: its square still has room in the sums."""


@dataclass(frozen=True, eq=False)
class Rewards:
    """Steps with rewards: what regression and search work on."""

    phi: NDArray[np.float32]
    """[N, d], of the states reached."""
    reward: Floats
    """[N]"""
    episode: NDArray[np.intp]
    """[N], which episode each step belongs to."""
    tried: list[tuple[Floats, float]]
    """(w, return) of every episode that pursued a task of its own; empty where none did."""


@dataclass(frozen=True, eq=False)
class Answer:
    """One method's w, and what speaks for it."""

    method: str
    w: Floats
    """[d], unit length."""
    r_squared: float
    """On the episodes held out, as fitted on the others; negative is worse than a constant."""
    condition_number: float
    interval: Floats
    """[2, d], the middle 90 % of w over resampled episodes."""
    steadiness: float
    """The mean cosine between w and the w of resampled episodes: 1 is certain."""
    w_of_others: Floats
    """[d], from the episodes that were not held out, so that the others can judge it."""
    expected_return: float | None = None
    """By held-out episodes that pursued tasks near it; None where too few did."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """All answers, the one to trust, and why."""

    answers: dict[str, Answer]
    best: str
    num_steps: int
    num_episodes: int
    num_rewarded: int
    words: list[str]


def compare(rewards: Rewards) -> Comparison:
    """Least squares (the paper's), ridge, centred, whitened, search; held-out episodes choose `best`."""
    reward = _checked(rewards)
    is_constant = np.ptp(reward) == 0
    blocks = _blocks(rewards, reward)
    plain = {"least squares": functools.partial(solve, centred=False, ridge=0.0)}
    finer = {
        "ridge": _ridge(blocks, centred=False),
        "centred": functools.partial(solve, centred=True, ridge=0.0),
        "centred ridge": _ridge(blocks, centred=True),
        "whitened": functools.partial(solve, centred=True, ridge=0.0, whitened=True),
    }
    found = {
        name: _answer(name, method, blocks)
        for name, method in (plain if is_constant else plain | finer).items()
    }
    answers = {name: answer for name, answer in found.items() if answer is not None}
    if rewards.tried:
        answers["random search"] = _search(rewards.tried, blocks)
    if len(rewards.tried) >= kernel_return.ENOUGH:
        answers[SMOOTHED] = _smoothed_search(rewards.tried, blocks)
        answers = _judged(answers, rewards.tried)
    if not answers:
        raise UserError(
            "The reward has nothing in common with the features (w = 0 by every method), so no task can "
            "be inferred from it; train with more features (--num-features) or change the reward."
        )
    best = _best(answers)
    total = sum(blocks[1:], blocks[0])
    num_episodes = len(np.unique(rewards.episode))
    is_tie = len({score for _, score in rewards.tried}) == 1
    num_tied = len(rewards.tried) if is_tie else 0
    words = explain.words(answers, best, total, num_episodes, is_constant, num_tied)
    return Comparison(answers, best, total.num_steps, num_episodes, total.num_rewarded, words)


def _best(answers: dict[str, Answer]) -> str:
    """By the returns of neighbours where there are enough; else by R^2, or by search where that is little."""
    expected = {n: a.expected_return for n, a in answers.items() if a.expected_return is not None}
    if expected:
        values = np.array(list(expected.values()))
        if len(values) > 1 and np.ptp(values) <= _SAME * np.abs(values).max():
            return SMOOTHED  # those held out tell no difference; it alone has asked all of them
        return max(expected, key=lambda name: expected[name])
    best = max(answers, key=lambda name: answers[name].r_squared)
    explains = answers[best].r_squared >= explain.LITTLE
    return best if explains or "random search" not in answers else "random search"


def _checked(rewards: Rewards) -> Floats:
    """Refuse what no method could answer."""
    reward = rewards.reward
    if not len(reward):
        raise UserError("There are no steps to infer a task from; give it at least one episode.")
    if not np.isfinite(reward).all():
        bad = int(np.count_nonzero(~np.isfinite(reward)))
        raise UserError(
            f"{bad} of {len(reward)} rewards are NaN or infinite; mend the reward first."
        )
    if np.abs(reward).max() > _LARGEST:
        raise UserError(f"A reward is larger than {_LARGEST:.0e}; scale the rewards down.")
    if not reward.any():
        raise UserError(
            f"No reward was seen in {len(reward):,} steps, so there is nothing to infer a task from; give "
            "it more episodes, or train longer."
        )
    if np.ptp(reward) == 0 and not rewards.tried:
        raise UserError(
            f"The reward is {reward[0]:g} at every step, so every task is as good as any; change the reward."
        )
    return reward


def _blocks(rewards: Rewards, reward: Floats) -> list[RewardSums]:
    """Sums of whole episodes, several to a block where there are many."""
    _, number = np.unique(rewards.episode, return_inverse=True)
    number %= _MOST_BLOCKS
    order = np.argsort(number, kind="stable")
    edges = np.searchsorted(number[order], np.arange(int(number.max()) + 2))
    blocks = []
    for start, stop in itertools.pairwise(edges):
        rows = order[start:stop]
        sums = RewardSums(rewards.phi.shape[1])
        sums.add(rewards.phi[rows], reward[rows])
        blocks.append(sums)
    return blocks


def _split(blocks: list[RewardSums]) -> tuple[RewardSums, RewardSums]:
    """Sums of the blocks to fit on, and of those held out; one block alone is both."""
    if len(blocks) == 1:
        return blocks[0], blocks[0]
    step = min(_HELD_OUT, len(blocks))
    held = blocks[step - 1 :: step]
    kept = [block for index, block in enumerate(blocks) if index % step != step - 1]
    return _total(kept), _total(held)


def _total(blocks: list[RewardSums]) -> RewardSums:
    return sum(blocks[1:], blocks[0])


def _ridge(blocks: list[RewardSums], centred: bool) -> functools.partial[Fit]:
    """The penalty that predicts held-out blocks best."""
    fitted, held = _split(blocks)
    scores = [predicted(held, solve(fitted, centred=centred, ridge=r)) for r in RIDGES]
    return functools.partial(solve, centred=centred, ridge=RIDGES[int(np.argmax(scores))])


def _answer(name: str, method: functools.partial[Fit], blocks: list[RewardSums]) -> Answer | None:
    fitted, held = _split(blocks)
    fit = method(_total(blocks))
    w = _unit(fit.w)
    if w is None:
        return None
    part = method(fitted)
    again = [_unit(method(_total(drawn)).w) for drawn in _resampled(blocks)]
    others = np.array([other for other in again if other is not None])
    if not len(others):
        others = w[None]
    if penalty := method.keywords["ridge"]:
        name = f"{name} ({penalty:g})"
    return Answer(
        method=name,
        w=w,
        r_squared=predicted(held, part),
        condition_number=fit.condition_number,
        interval=np.quantile(others, [0.05, 0.95], axis=0),
        steadiness=float((others @ w).mean()),
        w_of_others=part.w / max(float(np.linalg.norm(part.w)), 1e-12),
    )


def _search(tried: list[tuple[Floats, float]], blocks: list[RewardSums]) -> Answer:
    """The task of the best episode; resampling asks which other episodes could have been the best."""
    best = max(range(len(tried)), key=lambda index: tried[index][1])
    random = np.random.default_rng(0)
    draws = random.integers(len(tried), size=(_RESAMPLES, len(tried)))
    winners = [max(draw, key=lambda index: tried[index][1]) for draw in draws]
    others = np.array([tried[index][0] for index in winners])
    mine, _ = Neighbours.of(tried).split()
    of_others = mine.w[mine.returns.argmax()] if len(mine.w) else tried[best][0]
    name = f"random search over {len(tried)} episodes"
    return _from_returns(name, tried[best][0], of_others, others, blocks)


def _smoothed_search(tried: list[tuple[Floats, float]], blocks: list[RewardSums]) -> Answer:
    """The task whose neighbourhood of episodes returned most: one lucky episode is not enough."""
    everyone = Neighbours.of(tried)
    kappa, (mine, judges) = everyone.best_kappa(), everyone.split()
    others = np.array([mine.best_task(kappa), judges.best_task(kappa)])
    name = f"smoothed search (kappa {kappa:g})"
    return _from_returns(name, everyone.best_task(kappa), others[0], others, blocks)


def _from_returns(
    method: str, task: Floats, of_others: Floats, others: Floats, blocks: list[RewardSums]
) -> Answer:
    w = _unit(task)
    assert w is not None
    return Answer(
        method=method,
        w=w,
        r_squared=_along(w, blocks),
        condition_number=math.inf,
        interval=np.quantile(others, [0.05, 0.95], axis=0),
        steadiness=float((others @ w).mean()),
        w_of_others=of_others,
    )


def _judged(answers: dict[str, Answer], tried: list[tuple[Floats, float]]) -> dict[str, Answer]:
    """What held-out episodes that pursued nearby tasks say of each answer."""
    everyone = Neighbours.of(tried)
    kappa, (_, judges) = everyone.best_kappa(), everyone.split()
    return {
        name: dataclasses.replace(
            answer, expected_return=float(judges.expected(answer.w_of_others, kappa))
        )
        for name, answer in answers.items()
    }


def _along(w: Floats, blocks: list[RewardSums]) -> float:
    """How well phi . w, scaled and shifted on some blocks, predicts the others."""
    fitted, held = _split(blocks)
    line = solve(_projected(fitted, w), centred=True)
    return predicted(_projected(held, w), line)


def _projected(sums: RewardSums, w: Floats) -> RewardSums:
    """The sums of phi . w as the only feature."""
    d = sums.num_features
    basis = np.zeros((d + 2, 3))
    basis[:d, 0], basis[d, 1], basis[d + 1, 2] = w, 1.0, 1.0
    narrow = RewardSums(1)
    narrow.moments = basis.T @ sums.moments @ basis
    narrow.num_rewarded = sums.num_rewarded
    return narrow


def predicted(held: RewardSums, fit: Fit) -> float:
    """1 - SSE / SST of a fit's predictions on other steps; 0 where their reward never changes."""
    coefficients = np.concatenate([fit.w, [-1.0, fit.intercept]])  # phi . w - r + intercept
    sse = float(coefficients @ held.moments @ coefficients)
    num_steps = max(held.num_steps, 1)
    total, mean = held.moments[-2, -2], held.moments[-1, -2] / num_steps
    sst = float(total - num_steps * mean**2)
    return 1 - max(sse, 0.0) / sst if sst > 1e-12 * max(total, 1e-300) else 0.0


def _resampled(blocks: list[RewardSums]) -> list[list[RewardSums]]:
    random = np.random.default_rng(0)
    draws = random.integers(len(blocks), size=(_RESAMPLES, len(blocks)))
    return [_weighted(blocks, np.bincount(draw, minlength=len(blocks))) for draw in draws]


def _weighted(blocks: list[RewardSums], counts: NDArray[np.intp]) -> list[RewardSums]:
    """One sum in which every block counts as often as it was drawn."""
    moments = _stacked(tuple(blocks))
    total = RewardSums(blocks[0].num_features)
    total.moments = np.tensordot(counts.astype(np.float64), moments, axes=1)
    total.num_rewarded = int(counts @ np.array([block.num_rewarded for block in blocks]))
    return [total]


@functools.lru_cache(maxsize=1)
def _stacked(blocks: tuple[RewardSums, ...]) -> Floats:
    return np.stack([block.moments for block in blocks])


def _unit(w: Floats) -> Floats | None:
    length = float(np.linalg.norm(w))
    return w / length if length > 1e-12 else None
