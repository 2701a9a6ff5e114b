"""Turn a request of the page into a task: painted, random, saved, env, expression, marks, direction, mix."""

from __future__ import annotations

import collections
import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from visr.api import Run
from visr.config import InferenceConfig
from visr.errors import UserError
from visr.explorer import painting, python_snippets
from visr.explorer.validation import RequestFields
from visr.inference import expression
from visr.inference.prompts import Reward
from visr.inference.steps import RewardedSteps
from visr.storage.records.task import Task, cosine, mix, new_path
from visr.storage.run_dir import slug

MAX_EPISODES, MAX_STEPS = 50, 100_000
"""Limits for the environment's own reward: the paper's numbers."""
MAX_MARKS = 400
_MAX_KEPT = 200
Inferred = tuple[Task, python_snippets.Lines, tuple[str, ...]]
"""A task, the code that makes it, and remarks."""
_FROM_MARKS = InferenceConfig(centred=True, ridge=0.1)


@dataclass(frozen=True, eq=False)
class RequestedTask:
    """A task, the Python that makes it again, and remarks."""

    id: str
    task: Task
    lines: python_snippets.Lines
    words: tuple[str, ...] = ()

    def to_dict(self, run: Run) -> dict[str, Any]:
        """The JSON that the page shows."""
        content = self.task.to_dict()
        return {
            "id": self.id,
            **{key: content[key] for key in _SHOWN},
            "words": list(self.words),
            "python": {
                str(gpi).lower(): python_snippets.script(run.path, self.lines, gpi=gpi)
                for gpi in (False, True)
            },
        }


_SHOWN = (
    *("name", "w", "method", "r_squared", "condition_number", "standard_error"),
    *("num_steps", "num_rewarded", "reward"),
)


class TaskRequests:
    """Infers tasks for one run and keeps the latest ones by id."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._requested: collections.OrderedDict[str, RequestedTask] = collections.OrderedDict()

    def infer(self, request: RequestFields, kind: str | None = None) -> RequestedTask:
        """The task that a request describes."""
        kind = request.text("kind", 20) if kind is None else kind
        grants: dict[str, Callable[[RequestFields], Inferred]] = {
            "paint": self._painted,
            "random": self._random,
            "saved": self._saved,
            "environment": self._environment,
            "expression": self._expression,
            "marks": self._marks,
            "direction": self._direction,
            "mix": self._mixture,
        }
        if kind not in grants:
            raise UserError(f"There is no kind of task {kind!r}; there are {', '.join(grants)}.")
        requested = RequestedTask(secrets.token_hex(8), *grants[kind](request))
        self._requested[requested.id] = requested
        while len(self._requested) > _MAX_KEPT:
            self._requested.popitem(last=False)
        return requested

    def get(self, id: str) -> RequestedTask:
        """An earlier task by its id."""
        if id not in self._requested:
            raise UserError("This task is no longer remembered here; choose it again.")
        return self._requested[id]

    def save(self, id: str, name: str) -> str:
        """Save a task in the run and return its name there; never overwrite another task."""
        task = self.get(id).task
        run = self.run.directory
        path = run.task(slug(name)) if name else new_path(run, task)
        if name and path.exists():
            raise UserError(f"There is a task `{path.stem}` already; give this one another name.")
        task.save(path)
        return path.stem

    def saved_names(self) -> list[str]:
        """Names of the tasks saved in the run."""
        return [path.stem for path in self.run.directory.task_files()]

    def _painted(self, request: RequestFields) -> Inferred:
        world = painting.world(self.run)
        reward = request.numbers("reward", world.num_states)
        task = painting.infer(self.run, reward)
        return task, python_snippets.painted(reward, world.height, world.width), ()

    def _random(self, request: RequestFields) -> Inferred:
        seed = request.integer("seed", 0, 2**31 - 1)
        return self.run.skill(seed), python_snippets.skill(seed), ()

    def _saved(self, request: RequestFields) -> Inferred:
        wanted = request.text("name", 200)
        files = {path.stem: path for path in self.run.directory.task_files()}
        if wanted not in files:  # looked up in a list, so no path is built from it
            raise UserError(f"The run keeps no task {wanted!r}; it keeps {_listed(files)}.")
        task = Task.load(files[wanted])
        self.run.policy(task)  # raises for a task of another run
        return task, python_snippets.saved(files[wanted]), ()

    def _environment(self, request: RequestFields) -> Inferred:
        episodes = request.integer("episodes", 1, MAX_EPISODES, 10)
        steps = request.integer("steps", 100, MAX_STEPS, 10_000)
        seed = request.integer("seed", 0, 2**31 - 1, 0)
        method = request.text("method", 20, "best")
        inference = self.run.inference
        prompt = inference.prompt(reward="env")
        compared = inference.compare(prompt, num_episodes=episodes, num_steps=steps, seed=seed)
        task = inference.to_task(prompt, compared, method)
        return (
            task,
            python_snippets.environment(episodes, steps, seed, method),
            tuple(compared.words),
        )

    def _expression(self, request: RequestFields) -> Inferred:
        text = request.text("text", expression.MAX_LENGTH).strip()
        if "#" in text:  # a comment could hide a file name
            raise UserError("An expression has no comments; leave out what begins with #.")
        if self.run.world is not None:
            values = painting.preset(self.run, text)
            return painting.infer(self.run, values, text), python_snippets.expression(text), ()
        inference = self.run.inference
        prompt = inference.prompt(reward=text)
        compared = inference.compare(prompt)
        task = inference.to_task(prompt, compared)
        return task, python_snippets.expression(text), tuple(compared.words)

    def _marks(self, request: RequestFields) -> Inferred:
        d = self.run.config.agent.num_features
        phi = request.rows("phi", d, MAX_MARKS)
        liked = request.numbers("liked", len(phi))
        if not np.isin(liked, (-1, 0, 1)).all() or not liked.any() or np.ptp(liked) == 0:
            raise UserError(
                "Mark some frames as good (1) or bad (-1), and leave others unmarked (0)."
            )
        good, bad = int((liked > 0).sum()), int((liked < 0).sum())
        name = f"{good} good and {bad} bad frames"
        steps = RewardedSteps(phi, liked, np.arange(len(phi)))
        compared = Reward(name, _FROM_MARKS).infer(self.run.visr, lambda: steps)
        task = self.run.task_of(compared, "best", name)
        return task, python_snippets.direction(task.w, name, "inferred from marked frames"), ()

    def _direction(self, request: RequestFields) -> Inferred:
        w = request.numbers("w", self.run.config.agent.num_features)
        task = self.run.skill(w, name="by hand")
        return task, python_snippets.direction(task.w, task.name), ()

    def _mixture(self, request: RequestFields) -> Inferred:
        parts = [
            (self.get(part.text("id", 40)), part.number("weight", -100, 100))
            for part in request.objects("parts", 4)
        ]
        task = mix([(requested.task, weight) for requested, weight in parts])
        lines = python_snippets.mixture([(requested.lines, weight) for requested, weight in parts])
        cosines = [
            f"cosine {cosine(task, requested.task):+.2f} with {requested.task.name}"
            for requested, _ in parts
        ]
        return task, lines, tuple(cosines)


def _listed(names: Any) -> str:
    shown = list(itertools.islice(names, 8))
    return ", ".join(shown) if shown else "none yet"
