"""What the numbers of an inference mean, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visr.ops.regression import RewardSums

if TYPE_CHECKING:
    from visr.inference.compare import Answer

LITTLE = 0.02
"""R^2 below which a fit says nothing worth following."""
_FEW_EPISODES = 4
_CONSTANT = (
    "The reward is the same at every step, so only how long episodes last can differ: what goes by "
    "their returns, search, is the one to trust."
)


def words(
    answers: dict[str, Answer],
    best: str,
    total: RewardSums,
    num_episodes: int,
    is_constant: bool,
    num_tied: int = 0,
) -> list[str]:
    """What the numbers mean for somebody who wants a policy.

    `num_tied`: so many tasks were tried, and all returned the same.
    """
    answer = answers[best]
    if num_tied and best == "random search":
        return [
            f"Trust none of them: the {num_tied} episodes that were tried returned the same, and no fit "
            "explains the reward, so this task is as good as any; give it more steps (--steps, --episodes)."
        ]
    if is_constant:
        return [_CONSTANT, *_expected(answer)]
    words = []
    if answer.r_squared >= 0.5:
        words.append("The reward lies largely in the span of the features.")
    elif answer.r_squared >= 0.1:
        words.append("The features carry part of the reward.")
    else:
        words.append("The features carry next to nothing of the reward.")
    if total.num_rewarded < 10 * total.num_features:
        words.append(
            f"Only {total.num_rewarded} steps had a reward, few for {total.num_features} features."
        )
    if num_episodes < _FEW_EPISODES:
        words.append(f"So few episodes ({num_episodes}) leave little to hold out: R^2 flatters.")
    if expected := _expected(answer):
        return [*words, *expected]
    if best == "random search":
        words.append(
            f"Trust {answer.method}: no fit explains enough of the reward to follow it, and this task was "
            "seen to earn some."
        )
        return words
    trusted = "steady" if answer.steadiness >= 0.9 else "unsteady"
    words.append(
        f"Trust {answer.method}: it predicts held-out episodes best (R^2 {answer.r_squared:.2f}) and is "
        f"{trusted} under resampling (mean cosine {answer.steadiness:.2f})."
    )
    return words


def _expected(answer: Answer) -> list[str]:
    if answer.expected_return is None:
        return []
    return [
        f"Trust {answer.method}: held-out episodes that pursued tasks near its w returned most, "
        f"{answer.expected_return:.3g} on average."
    ]
