"""Draw the pictures of docs/concepts/visr.md from the packed VISR model: python docs/images/concepts.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

import visr
from visr.envs.grid import dynamic_programming as dp
from visr.envs.grid.world import GridWorld
from visr.report import maps, style

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Panel = tuple[str, Floats, Ints | None, ScalarMappable]
"""Title, values of the cells, a policy or None, and the scale of the colours."""

PLACE = Path(__file__).parent
SKILLS = (3, 5)
SIDE, GAP, ABOVE, EDGE = 2.0, 0.16, 0.26, 0.05  # inches


def amounts(values: Floats) -> ScalarMappable:
    """Colours from the smallest to the largest value."""
    return ScalarMappable(Normalize(float(values.min()), float(values.max())), style.SEQUENTIAL)


def sheet(world: GridWorld, rows: list[list[Panel]], name: str) -> None:
    """Rows of panels, each with a title above it."""
    columns, free = len(rows[0]), world.free.reshape(world.height, world.width)
    width = columns * (SIDE + GAP) - GAP + 2 * EDGE
    height = len(rows) * (SIDE + ABOVE) + 2 * EDGE
    figure = Figure(figsize=(width, height))
    for i, row in enumerate(rows):
        for k, (title, values, policy, scale) in enumerate(row):
            left, bottom = EDGE + k * (SIDE + GAP), height - EDGE - (i + 1) * (SIDE + ABOVE)
            place = (left / width, bottom / height, SIDE / width, SIDE / height)
            axes = figure.add_axes(place)
            maps.draw_map(axes, values, free, scale)
            axes.set_title(title, loc="left", fontsize=7.5, color=style.INK, pad=3)
            if policy is not None:
                maps.draw_arrows(axes, policy.reshape(free.shape), free)
    (PLACE / name).write_bytes(style.png(figure))
    print(PLACE / name)


def successor_features(run: visr.Run, world: GridWorld) -> list[list[Panel]]:
    """For two w: the reward, what the policy visits, and psi . w."""
    rows = []
    for seed in SKILLS:
        w = run.skill(seed).w
        found = run.evaluate_exactly(run.skill(seed), gpi=False)
        psi = run.successor_features(np.arange(world.num_states), w)
        value = (psi @ w).max(axis=1).astype(np.float64)
        seen = dp.visits(world.transitions, found.policy, world.start, 40)
        reward = found.represented_reward
        rows.append(
            [
                (
                    "reward φ(s) · w, with w's policy",
                    reward,
                    found.policy,
                    maps.around_zero(reward),
                ),
                ("visits of this policy in 40 steps", np.sqrt(seen), None, amounts(np.sqrt(seen))),
                ("what ψ predicts: max ψ(s, a, w) · w", value, None, amounts(value)),
            ]
        )
    return rows


def improvement(world: GridWorld) -> list[list[Panel]]:
    """Two policies that each know one box, and GPI over both; values are exact."""
    gamma, boxes = dp.GAMMA, np.zeros((2, world.height, world.width))
    boxes[0, 6:9, 0:3] = boxes[1, 1:4, 7:10] = 1
    single, both = boxes.reshape(2, -1), boxes.sum(axis=0).ravel()
    optimal = dp.optimal_values(world.transitions, single, gamma)
    policies = dp.greedy(world.transitions, single, optimal, gamma)
    values = dp.policy_values(world.transitions, policies, np.stack([both, both]), gamma)
    q = (both + gamma * values)[:, world.transitions]  # [policies, S, actions]
    gpi = q.max(axis=0).argmax(axis=-1)
    names = ("the lower box's policy", "the upper box's policy", "GPI over both")
    row = []
    for name, policy in zip(names, (*policies, gpi), strict=True):
        good = dp.fraction_of_optimal(world.transitions, policy, both, world.start, gamma)
        row.append((f"{name}: {good:.2f}", both, policy, maps.around_zero(both)))
    return [row]


def regression(run: visr.Run, world: GridWorld, asked: list[str]) -> list[list[Panel]]:
    """Rewards as the features express them, the best policy for that, and the agent's."""
    gamma, rows = dp.GAMMA, []
    for reward in asked:
        task = run.infer(reward)
        found, true = run.evaluate_exactly(task), np.asarray(task.reward)
        fitted = found.represented_reward
        best = dp.optimal_values(world.transitions, fitted, gamma)
        plan = dp.greedy(world.transitions, fitted, best, gamma)
        planned = dp.fraction_of_optimal(world.transitions, plan, true, world.start, gamma)
        r2 = np.corrcoef(fitted, true)[0, 1] ** 2
        agent = f"the agent's policy: {found.fraction_of_optimal:.2f}"
        rows.append(
            [
                (f"asked reward: {reward}", true, None, maps.around_zero(true)),
                (
                    f"φ · w (R² {r2:.2f}); planned: {planned:.2f}",
                    fitted,
                    plan,
                    maps.around_zero(fitted),
                ),
                (agent, found.values, found.policy, amounts(found.values)),
            ]
        )
    return rows


def main() -> None:
    run = visr.load("pretrained:grid-visr")
    world = run.world
    assert world is not None
    with style.figure_style():
        sheet(world, successor_features(run, world), "concept_psi.png")
        sheet(world, improvement(world), "concept_gpi.png")
        sheet(world, regression(run, world, ["boxes:7"]), "concept_regression.png")
        sheet(world, regression(run, world, ["row == col", "goal:9,3"]), "concept_limits.png")


if __name__ == "__main__":
    main()
