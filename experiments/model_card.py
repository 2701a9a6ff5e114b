"""What a model's card shows: scores by kind of prompt, and what the model cannot do.

Every prompt is answered without a weight change, and scored beside the random policy and the best
constant action: exactly on the grid, by whole episodes elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from replay_minigrid import by_chance, pairs, reached, table_of
from replay_vectors import REWARDS

import visr
from visr.config import MINIGRID
from visr.envs.grid import dynamic_programming as dp
from visr.envs.grid.dynamic_programming import GAMMA
from visr.evaluation import episodes
from visr.evaluation.grid_benchmark import GridBenchmark
from visr.inference.asked_reward import AskedReward
from visr.inference.demonstration import Demonstration
from visr.play.session import Session
from visr.storage.packed_models import PromptScore

GOALS = {"CartPole-v1": "x0=1,x2=0", "MountainCar-v0": "x0=-1,x1=0", "Acrobot-v1": "x0=-1,x2=1"}
"""Goals that the classic environments are asked for; in others a recorded state is the goal."""
SHOWN_STEPS = 200
"""Steps of a demonstration."""
PATH_STEPS = 30
"""Steps of a demonstration on the grid."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """A prompt that was answered: its task, and the reward that scores it."""

    kind: str
    words: str
    task: visr.Task
    reward: AskedReward | None = None
    """None: the task's own reward over the cells of a grid."""


@dataclasses.dataclass
class Measured:
    """Scores, one example of every kind of prompt for the film, and what was refused."""

    scores: list[PromptScore] = dataclasses.field(default_factory=list)
    examples: list[Asked] = dataclasses.field(default_factory=list)
    cannot: list[str] = dataclasses.field(default_factory=list)

    def add(self, score: PromptScore, example: Asked) -> None:
        """Keep a score, and the first example of its kind."""
        self.scores.append(score)
        if example.kind not in {one.kind for one in self.examples}:
            self.examples.append(example)


def measure(run: visr.Run, num_episodes: int, num_tasks: int) -> Measured:
    """Ask for everything that this environment allows; `num_tasks` of each kind on the grid."""
    measured = Measured()
    if run.world is not None:
        _measure_cells(run, measured, num_tasks)
    else:
        if run.config.env.startswith(MINIGRID):
            _measure_states(run, measured, num_tasks)
        _measure_episodes(run, measured, num_episodes)
    if not measured.examples:
        raise SystemExit(f"It answers no prompt; train it longer. {' '.join(measured.cannot)}")
    measured.cannot += list(weak(measured.scores)) + _limits(run)
    return measured


def weak(scores: list[PromptScore]) -> Iterator[str]:
    """Prompts whose policy is not clearly better than those that know nothing of them."""
    for one in scores:
        others = {"the random policy": one.random}
        if one.best_constant is not None:
            others["the best constant action"] = one.best_constant
        name = max(others, key=lambda key: others[key])
        if one.score <= others[name] + 2 * (one.standard_error or 0.0):
            yield f"Not clearly better than {name}: {one.kind}, {one.prompt}."


def _limits(run: visr.Run) -> list[str]:
    """What holds for every model of this kind."""
    config = run.config
    where = f"It knows only {config.env}"
    if run.world is not None:
        layout = config.grid.layout.replace("-", " ")
        where += f", {run.world.height} x {run.world.width} cells, {layout}"
    found = [f"{where}. In another environment it must be trained again."]
    try:
        if run.world is None:
            run.recording()
    except visr.UserError:
        found.append(
            "Observations are images, so rewards cannot be written as expressions: ask with the "
            "environment's own reward, an .npz file or a demonstration."
        )
    return found


# ---- the grid: exact values


def _measure_cells(run: visr.Run, measured: Measured, num_tasks: int) -> None:
    """Two boxes, goal cells, and paths of an optimal policy: the mean fraction of optimal."""
    assert run.world is not None
    families, width = GridBenchmark(run.config, run.world).families, run.world.width
    unit = "fraction of optimal"

    def goal(reward: NDArray[np.float64]) -> Asked:
        cell = "{},{}".format(*divmod(int(reward.argmax()), width))
        task = dataclasses.replace(run.infer(goal=cell), reward=reward)
        return Asked("goal", f"cell {cell}", task)

    def path(reward: NDArray[np.float64]) -> Asked:
        states = optimal_path(run, reward)
        task = run.infer(demonstration=states)
        return Asked("demonstration", "an optimal path", dataclasses.replace(task, reward=reward))

    kinds: list[tuple[str, str, Callable[[NDArray[np.float64]], Asked]]] = [
        ("boxes", "two boxes", lambda r: Asked("reward", "two boxes", run.infer(reward=r))),
        ("goals", "one cell", goal),
        ("boxes", f"{PATH_STEPS} steps of an optimal policy for two boxes", path),
    ]
    for family, words, ask in kinds:
        asked = [ask(reward) for reward in families.get(family, np.empty((0, 0)))[:num_tasks]]
        if not asked:
            measured.cannot.append(f"The grid is too small for {words}.")
            continue
        results = [run.evaluate_exactly(one.task) for one in asked]
        scores = [result.fraction_of_optimal for result in results]
        constants = [
            ((r.value_constant or 0.0) - r.value_random) / (r.value_optimal - r.value_random)
            for r in results
        ]
        error = float(np.std(scores, ddof=1) / len(scores) ** 0.5) if len(scores) > 1 else None
        found = (float(np.mean(scores)), 0.0, float(np.mean(constants)), error)
        prompt = f"{words}, mean of {len(asked)}"
        measured.add(_score(asked[0].kind, prompt, unit, *found, digits=3), asked[0])


def optimal_path(run: visr.Run, reward: NDArray[np.float64]) -> NDArray[np.int64]:
    """States that an optimal policy visits from the first free cell."""
    world = run.world
    assert world is not None
    values = dp.optimal_values(world.transitions, reward[None], GAMMA)
    policy = dp.greedy(world.transitions, reward[None], values, GAMMA)[0]
    states = [int(np.flatnonzero(world.free)[0])]
    for _ in range(PATH_STEPS):
        states.append(int(world.transitions[states[-1], policy[states[-1]]]))
    return np.array(states)


# ---- MiniGrid: states as goals


def _measure_states(run: visr.Run, measured: Measured, num_tasks: int) -> None:
    """States as goals: the share that is reached within twice the shortest path."""
    table = table_of(run.config.env)
    asked = pairs(1, num_tasks, table)
    (share,) = reached(run, table, asked, (run.config.agent.gpi,))
    constants = [by_chance(table, asked, action) for action in range(table.after.shape[1])]
    error = (share * (1 - share) / len(asked)) ** 0.5
    goal = asked[0][0]
    task = run.infer(goal=str(goal))
    prompt = f"one of {len({goal for goal, *_ in asked})} states, from up to four starts"
    unit = "share reached within twice the shortest path"
    found = (share, by_chance(table, asked), max(constants), error)
    measured.add(
        _score("goal", prompt, unit, *found, digits=3),
        Asked("goal", f"state {goal}", task, run.asked_reward(task)),
    )


# ---- elsewhere: whole episodes


def _measure_episodes(run: visr.Run, measured: Measured, num_episodes: int) -> None:
    """Rewards, a goal, and one episode of the first reward's policy as a demonstration."""
    first: Asked | None = None
    unit = f"mean return of {num_episodes} episodes"
    for text in REWARDS.get(run.config.env, ("env",)):
        words = "the environment's own reward" if text == "env" else f"`{text}`"
        task = _try(measured, words.capitalize(), lambda text=text: run.infer(text))
        if task is not None:
            one = Asked("reward", words, task, run.asked_reward(task))
            measured.add(_played(run, one, num_episodes, unit), one)
            first = first or one
    states, actions = episode(run, first.task if first else run.skill(0), SHOWN_STEPS)
    goal = _try(measured, "A goal", lambda: run.infer(goal=_goal(run, states)))
    if goal is not None:
        asked = run.asked_reward(goal)
        one = Asked(
            "goal", f"`{goal.name}`" if "=" in goal.name else "a recorded state", goal, asked
        )
        summed = "closeness, at most 1 a step" if asked.kind == "goal" else "phi . w"
        measured.add(_played(run, one, num_episodes, f"{unit}: {summed}"), one)
    if first is None:  # there is no reward to score a demonstration by
        return
    shown = _try(measured, "A demonstration", lambda: _demonstrated(run, states, actions))
    if shown is not None:
        words = f"one episode of the policy for {first.words}"
        one = Asked("demonstration", words, shown, first.reward)
        measured.add(_played(run, one, num_episodes, f"{unit}, of that reward"), one)


def measure_demonstration(run: visr.Run, num_episodes: int) -> PromptScore:
    """The demonstration of `measure` alone: one episode of the policy for the environment's own reward."""
    task = run.infer("env")
    first = Asked("reward", "the environment's own reward", task, run.asked_reward(task))
    states, actions = episode(run, task, SHOWN_STEPS)
    words = f"one episode of the policy for {first.words}"
    one = Asked("demonstration", words, _demonstrated(run, states, actions), first.reward)
    return _played(
        run, one, num_episodes, f"mean return of {num_episodes} episodes, of that reward"
    )


def _try(measured: Measured, words: str, ask: Callable[[], visr.Task]) -> visr.Task | None:
    """The task, or None and a sentence that says why there is none."""
    try:
        return ask()
    except visr.UserError as error:
        measured.cannot.append(f"{words}: {error}")
        return None


def _goal(run: visr.Run, states: NDArray) -> str | NDArray:
    """The environment's goal of the table, a recorded state, or for images the last one shown."""
    if run.config.env in GOALS:
        return GOALS[run.config.env]
    try:
        return f"step:{len(run.recording().action) // 2}"
    except visr.UserError:
        return states[-1]


def _demonstrated(run: visr.Run, states: NDArray, actions: NDArray[np.int64]) -> visr.Task:
    """The task of a trajectory whose observations have the form that networks take."""
    inference = run.inference
    prompt = inference.beside_recorded(Demonstration("demonstration", states, actions))
    return inference.to_task(prompt, inference.compare(prompt))


def episode(run: visr.Run, task: visr.Task, max_steps: int) -> tuple[NDArray, NDArray[np.int64]]:
    """Observations [T + 1, ...] and actions [T + 1] of one episode; the last action is -1, unknown."""
    session = Session(run.agent, run.config, epsilon=0.0, seed=7)
    session.actor.pursue(task.w)
    session.begin(7)
    states, actions = [session.observation[0].copy()], []
    while not session.is_over and len(actions) < max_steps:
        session.step()
        states.append(session.observation[0].copy())
        actions.append(session.action)
    session.close()
    return np.stack(states), np.array([*actions, -1], dtype=np.int64)


def _played(run: visr.Run, one: Asked, num_episodes: int, unit: str) -> PromptScore:
    assert one.reward is not None
    found = episodes.evaluate(
        run.agent, run.config, one.task, one.reward, num_episodes=num_episodes
    )
    random, *constants = (policy.asked.mean for policy in found.policies[1:])
    constant = constants[0] if constants else None
    error = found.asked.standard_error
    return _score(one.kind, one.words, unit, found.asked.mean, random, constant, error)


def _score(
    kind: str,
    prompt: str,
    unit: str,
    score: float,
    random: float,
    constant: float | None,
    error: float | None,
    digits: int = 2,
) -> PromptScore:
    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, digits)

    return PromptScore(
        kind=kind,  # pyright: ignore[reportArgumentType]
        prompt=prompt,
        unit=unit,
        score=round(score, digits),
        random=round(random, digits),
        best_constant=rounded(constant),
        standard_error=rounded(error),
    )
