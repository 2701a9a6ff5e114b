"""A pre-trained run in Python: infer tasks, get policies, evaluate them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from visr import agents, arguments, envs
from visr import config as configuration
from visr.agents.base import BehaviourModel
from visr.config import BASELINES, GRID
from visr.envs.episodes import Episode
from visr.envs.grid.dynamic_programming import GAMMA
from visr.envs.grid.world import GridWorld
from visr.errors import UserError, short_repr
from visr.evaluation import episodes, grid_benchmark, two_phase
from visr.evaluation.grid_benchmark import GridBenchmark
from visr.finetuning import run as finetuning
from visr.inference import collect, prompts
from visr.inference.asked_reward import AskedReward, asked_reward
from visr.inference.regression import Comparison
from visr.inference.steps import RewardedSteps
from visr.inference.task_inference import TaskInference
from visr.play import onnx, policy, session
from visr.play.policy import Policy
from visr.run_files import find_task
from visr.run_refine import RefinableRun
from visr.storage.packed_models import PackedModel
from visr.storage.records.episodes import EpisodeEvaluation
from visr.storage.records.grid import Evaluation
from visr.storage.records.task import RewardFunction, Task
from visr.storage.records.two_phase import Condition
from visr.storage.run_dir import RunDir, slug
from visr.training import checkpoint, devices
from visr.training.driver import Observer
from visr.types import Transitions

TaskLike = Task | str | Path | ArrayLike
"""A task, the name or the file of a saved one, or a direction w."""


class Run(RefinableRun):
    """A pre-trained agent and its files.

    >>> policy = run.policy(run.infer("row > 5"))
    """

    def __init__(
        self,
        run_dir: RunDir,
        device: str = "auto",
        model: PackedModel | None = None,
        env: str | None = None,
    ) -> None:
        super().__init__(run_dir, model, env)
        if self.config.agent.algorithm in BASELINES:
            raise UserError(
                f"{run_dir.path} holds a {self.config.agent.algorithm} agent, which was trained on one "
                "reward; only `visr evaluate` can play it."
            )
        self._codec = envs.space_codec(self.config)
        spec = envs.spec(self.config)
        agent = agents.new(self.config.agent, spec, self.config.replay).requires_grad_(False)
        self._restored = checkpoint.restore(agent, run_dir, model)
        self.num_steps = self._restored.num_steps
        here = dataclasses.replace(self.config.training, device=device)
        self.agent = devices.prepared(agent, here)
        self.world = envs.exact_model(self.config)
        """The exact model of the environment, if it is known."""

    @property
    def visr(self) -> BehaviourModel:
        """The agent, if it infers tasks: VISR and the replay learner do, others have no features."""
        if not isinstance(self.agent, BehaviourModel):
            raise UserError(
                f"{self.path} holds a {self.config.agent.algorithm} agent, which infers no tasks; "
                "`visr evaluate RUN` plays it where the environment has rewards."
            )
        return self.agent

    @property
    def adapts(self) -> bool:
        """Whether the agent can be given a task: VISR infers one, DIAYN searches among its skills."""
        return self.agent.adapts

    @arguments.checked
    def infer(
        self,
        reward: str | Path | ArrayLike | RewardFunction | None = None,
        *,
        goal: str | arguments.Observed | None = None,
        demonstration: str | Path | arguments.Observed | None = None,
        preferences: str | Path | Sequence[Any] | None = None,
        method: str = "best",
        name: str | None = None,
        refine: float | None = None,
        **fields: Any,
    ) -> Task:
        """The task that a prompt describes; no weight changes, unless it is refined for `refine` seconds.

        reward: "env", the environment's own reward, collected for 50 episodes or 100,000 steps; a function
        of (observations, actions, next observations) or an expression such as "x0 < -0.5", applied to the
        recorded steps; an .npz file. On the grid also an array over cells, "boxes:7", "goal:2,3", "row > 5";
        there `fields` are `centred`, `ridge` and `whitened`.
        goal: an observation to be like, also a Dict, or "x0=0.5,x1=0", "step:1234", "ROW,COL", FILE.npy.
        demonstration: observations [T, ...], (observations, actions), or an .npz file.
        preferences: pairs (better, worse) of segments, each (start, stop) in the recording or observations.
        `method` is one of `compare`'s, or "best"; `fields` is `clip_rewards`, for "env".

        >>> task = run.infer("x0 < -0.5")
        """
        inference = self.inference
        cells = self.world is not None and not prompts.is_of_steps(reward)
        if reward is not None and cells:
            if method != "best":
                raise UserError(
                    f"method = {short_repr(method)} is for rewards of steps; for cells give centred, ridge "
                    "or whitened."
                )
            task = inference.of_cells(reward, **fields)  # pyright: ignore
        else:
            prompt = inference.prompt(
                reward=reward, goal=goal, demonstration=demonstration, preferences=preferences
            )
            task = inference.to_task(prompt, inference.compare(prompt, **fields), method)
        if name is not None:
            task = dataclasses.replace(task, name=name)
        return task if refine is None else self.refine(task, seconds=refine)

    def compare(self, reward: str | Path | RewardFunction, **fields: Any) -> Comparison:
        """Every method's estimate from the same steps; `fields` are `clip_rewards` and, for "env", counts."""
        return self.inference.compare(self.inference.prompt(reward=reward), **fields)

    @arguments.checked
    def task_of(self, compared: Comparison, method: str, name: str) -> Task:
        """One method's estimate as a task; "best" is the method to trust."""
        return prompts.to_task(compared, method, name, self.config.env)

    @functools.cached_property
    def inference(self) -> TaskInference:
        """Prompts and the steps that they need."""
        return TaskInference(self.visr, self.config, self._codec, self.directory, self.num_steps)

    @arguments.checked
    def skill(self, which: int | ArrayLike, name: str | None = None) -> Task:
        """A task without a reward: the random skill of a seed, or the direction w itself, [d]."""
        size = self.agent.task_size
        if isinstance(which, bool | np.bool_):
            raise UserError(f"which = {which} is neither a seed nor a direction; give a number.")
        if arguments.is_number(which, is_whole=True):
            if not 0 <= which < 2**31:
                raise UserError(f"The seed {which} must lie between 0 and {2**31 - 1}.")
            w = collect.own_tasks(self.agent, int(which))().astype(np.float64)
            return Task(name or f"skill:{which}", self.config.env, w, "drawn at random")
        w = arguments.array(which, "which")
        if w.dtype.kind not in "iuf" or w.shape != (size,) or not np.isfinite(w).all():
            raise UserError(
                f"A direction of this run is {size} finite numbers, not {short_repr(which)}."
            )
        return Task(name or "direction", self.config.env, w)

    def collect_rewarded(self, **counts: Any) -> RewardedSteps:
        """Steps with the environment's own rewards: num_episodes (50) or num_steps (100,000), and a seed."""
        return collect.collect_rewarded(self.agent, self.config, **counts)

    meet_rewards = collect_rewarded  # its earlier name

    @arguments.checked
    def evaluate_task(
        self,
        task: TaskLike,
        *,
        num_episodes: int = two_phase.NUM_TRIALS,
        epsilon: float | None = None,
        gpi: bool | None = None,
        seed: int = 1,
    ) -> Condition:
        """Raw scores of whole episodes that pursue the task, in any environment."""
        chosen = self.checked_task(task)
        inputs = (self.agent_of(chosen), self.config, chosen)
        return two_phase.evaluate_task(
            *inputs, num_episodes=num_episodes, epsilon=epsilon, gpi=gpi, seed=seed
        )

    try_task = evaluate_task  # its earlier name

    @arguments.checked
    def phase_two(self, *, clip_rewards: bool | None = None, **counts: Any) -> two_phase.PhaseTwo:
        """The paper's second phase; `counts` are `two_phase.run`'s.

        Collect rewards for 50 episodes or 100,000 steps, infer by regression and search, play both for 30.
        """
        fields = {} if clip_rewards is None else {"clip_rewards": clip_rewards}
        config = configuration.replace(self.config, **fields)
        return two_phase.run(self.agent, config, self.num_steps, **counts)

    @arguments.checked
    def finetune(
        self,
        task: TaskLike,
        *,
        name: str | None = None,
        out: str | Path | None = None,
        reward: str | None = None,
        consult: Sequence[Task] | None = None,
        observe: Observer | None = None,
        **settings: Any,
    ) -> Run:
        """RL on the asked reward from psi read out at w: a run of its own, whose task is `task`.

        `settings` are `FinetuneConfig`'s: num_steps, from_scratch, learning_rate, ... With reward="env" it
        trains on the environment's own reward instead. The first steps act by GPI over the tasks in
        `consult`, by default all that the run has saved. `run.directory.finetuned` holds the scores.

        >>> better = run.finetune(task, num_steps=100_000)
        """
        self._restored.require_newest()
        arguments.observer(observe)
        arguments.optional_list(consult, "consult")
        chosen, task = configuration.finetune_settings(settings), self.checked_task(task)
        if reward is not None:
            task = finetuning.for_reward(task, reward, self.config)
        stem = slug(name or task.name) + ("-scratch" if chosen.from_scratch else "")
        path = self.directory.finetuned_run(stem) if out is None else arguments.path(out, "out")
        saved = self.directory.task_files() if consult is None else ()
        others = [*map(Task.load, saved), *map(self.checked_task, consult or ())]
        tuned = finetuning.start(path, self.config, self.visr, task, others, chosen, observe)
        return Run(tuned, device=self.visr.device.type)

    @arguments.checked
    def play(
        self, task: TaskLike, *, video: str | Path | None = None, **settings: Any
    ) -> list[Episode]:
        """Play episodes of a task: each has its `asked_return`, its own `score` and `num_steps`.

        `video` records them as an MP4 or GIF file; `settings` are num_episodes, max_steps, epsilon and seed.

        >>> run.play(task, video="left.gif")
        """
        path = None if video is None else arguments.path(video, "video")
        chosen = self.checked_task(task)
        agent, asked = self.agent_of(chosen), self.asked_reward(chosen)
        return session.play(agent, self.config, chosen, asked, video=path, **settings)

    @arguments.checked
    def export(self, task: TaskLike, path: str | Path, *, gpi: bool = False, seed: int = 0) -> Path:
        """Write the task's greedy policy as an ONNX file; its input is the networks' input."""
        target = arguments.path(path, "path")
        chosen, _ = self.checked_task(task), self.visr  # other agents are refused
        return onnx.export(self.agent_of(chosen), chosen, target, gpi, seed)  # pyright: ignore

    @arguments.checked
    def policy(self, task: TaskLike, *, gpi: bool | None = None, epsilon: float = 0.0) -> Policy:
        """A policy that pursues the task: call it with one observation or a batch."""
        gpi = self.config.agent.gpi if gpi is None else gpi
        task = self.checked_task(task)
        return Policy(self.agent_of(task), task, self._codec, gpi, epsilon, self.config.training)

    @arguments.checked
    def evaluate(
        self,
        task: TaskLike,
        *,
        gamma: float | None = None,
        gpi: bool | None = None,
        **settings: Any,
    ) -> Evaluation | EpisodeEvaluation:
        """How good the task's policy is for the reward that was asked for.

        On the grid its exact value, with discount `gamma`. Elsewhere returns of whole episodes, beside the
        random policy and the best constant action; `settings` are num_episodes, epsilon and seed.
        """
        if self.world is None:
            if gamma is not None:
                raise UserError(f"gamma = {gamma} is for exact values; {self.config.env} has none.")
            return self.evaluate_episodes(task, gpi=gpi, **settings)
        if settings:
            raise UserError(f"{', '.join(settings)}: values on the grid are exact; leave it out.")
        return self.evaluate_exactly(task, gpi=gpi, gamma=GAMMA if gamma is None else gamma)

    @arguments.checked
    def evaluate_exactly(
        self, task: TaskLike, *, gamma: float = GAMMA, gpi: bool | None = None
    ) -> Evaluation:
        """The exact value of the task's policy for its true reward (grid worlds)."""
        gpi = self.config.agent.gpi if gpi is None else gpi
        chosen, world, _ = self.checked_task(task), self._require_world(), self.visr
        agent = self.agent_of(chosen)
        with devices.threads(self.config.training):
            return grid_benchmark.evaluate(agent, world, chosen, gamma, gpi)  # pyright: ignore

    def evaluate_episodes(self, task: TaskLike, **settings: Any) -> EpisodeEvaluation:
        """Returns of whole episodes under the asked reward; `settings` are `episodes.evaluate`'s."""
        chosen = self.checked_task(task)
        agent, asked = self.agent_of(chosen), self.asked_reward(chosen)
        return episodes.evaluate(agent, self.config, chosen, asked, **settings)

    def asked_reward(self, task: TaskLike) -> AskedReward:
        """The reward that a task was asked for, as a function of steps."""
        return asked_reward(self.checked_task(task), self.agent, self._codec)

    @arguments.checked
    def evaluate_families(self, *, gamma: float = GAMMA) -> dict[str, float]:
        """Mean fractions of optimal over three families of 50 tasks each (grid worlds)."""
        benchmark = GridBenchmark(self.config, self._require_world(), gamma)
        return benchmark.scores(self.agent if self.adapts else self.visr)

    def features(self, observations: ArrayLike) -> NDArray[np.float32]:
        """phi of each observation: [N, d], unit length."""
        with torch.inference_mode():
            states = policy.states(self.agent, self._codec, observations)
            return self.visr.cumulant(Transitions(states)).cpu().numpy()

    def successor_features(self, observations: ArrayLike, w: ArrayLike) -> NDArray[np.float32]:
        """psi of each observation under the policy that pursues w [d] or [N, d]: [N, actions, d]."""
        return policy.successor_features(self.visr, self._codec, observations, w)

    def summary(self) -> dict[str, str]:
        """Where it is, what it was trained in, and its tasks."""
        agent, tasks = self.config.agent, ", ".join(self.tasks) or "none yet"
        found = {"run": self.address, "env": self.config.env, "algorithm": agent.algorithm}
        found |= {"steps": f"{self.num_steps:,}", "d": f"{agent.num_features}"}
        return found | {"tasks": tasks}

    def _require_world(self) -> GridWorld:
        if self.world is None:
            raise UserError(f"{self.config.env} has no exact model; only {GRID} can do this.")
        return self.world

    def checked_task(self, task: TaskLike) -> Task:
        """A task of this run: given as such, by its name or its file, or as a direction w."""
        if isinstance(task, str | Path):
            task = Task.load(find_task(self.directory, str(arguments.path(task, "task"))))
        elif not isinstance(task, Task):
            task = self.skill(task)
        env, num_states = self.config.env, 0 if self.world is None else self.world.num_states
        task.require_fit(env if self.has_own_env else task.env, self.agent.task_size, num_states)
        return task
