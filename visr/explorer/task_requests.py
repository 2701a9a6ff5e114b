"""Turn a request of the page into a task: every prompt, skills, saved tasks, directions, mixtures."""

from __future__ import annotations

import dataclasses
import itertools
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visr.api import Run
from visr.config import InferenceConfig
from visr.errors import UserError
from visr.explorer import painting, preference_questions
from visr.explorer.messages import RequestFields
from visr.explorer.preference_questions import Questions
from visr.explorer.watched_episode import Watched
from visr.inference import collect, expression
from visr.inference.demonstration import Demonstration
from visr.inference.prompts import Prompt, Reward
from visr.inference.steps import RewardedSteps
from visr.run_files import new_path
from visr.storage.records.task import Task, TaskPrompt, cosine, mix
from visr.storage.run_dir import slug

MAX_EPISODES, MAX_STEPS = 50, 100_000
"""Limits for the environment's own reward: the paper's numbers."""
MAX_MARKS = 400
_MAX_KEPT = 200
_MAX_INLINE = 5_000
"""Most numbers that copied Python contains."""
_FROM_MARKS = InferenceConfig(centred=True, ridge=0.1)


@dataclass(frozen=True, eq=False)
class RequestedTask:
    """A task, the Python that makes it again, and remarks."""

    task: Task
    lines: list[str]
    """Lines of code that define `task`."""
    words: tuple[str, ...] = ()
    id: str = field(default_factory=lambda: secrets.token_hex(8))

    def to_dict(self, run: Run) -> dict[str, Any]:
        """The JSON that the page shows."""
        place = Path(run.address)  # pretrained:NAME is no file
        name = str(place.resolve()) if place.exists() else run.address
        scripts = {str(gpi).lower(): self._script(name, gpi) for gpi in (False, True)}
        return {**self.task.to_dict(), "id": self.id, "words": self.words, "python": scripts}

    def _script(self, run: str, gpi: bool) -> str:
        """A complete program: load the run, infer the task, make its policy."""
        numpy = ["import numpy as np"] if any("np." in line for line in self.lines) else []
        load = f"run = visr.load({run!r})"
        policy = f"policy = run.policy(task, gpi={gpi}, epsilon=0)"
        return "\n".join([*numpy, "import visr", "", load, *self.lines, policy, ""])


class TaskRequests:
    """Infers tasks for one run and keeps the latest ones by id."""

    def __init__(self, run: Run, watched: Mapping[str, Watched] | None = None) -> None:
        self.run, self.questions = run, Questions(run)
        self._watched = {} if watched is None else watched
        self._requested: dict[str, RequestedTask] = {}

    def infer(self, request: RequestFields, kind: str | None = None) -> RequestedTask:
        """The task that a request describes."""
        kind = request.text("kind", 20) if kind is None else kind
        kinds: dict[str, Callable[[RequestFields], RequestedTask]] = {
            "paint": self._painted,
            "random": self._random,
            "saved": self._saved,
            "environment": self._environment,
            "expression": self._expression,
            "goal": self._goal,
            "demonstration": self._demonstration,
            "preferences": self._preferences,
            "marks": self._marks,
            "direction": self._direction,
            "mix": self._mixture,
        }
        if kind not in kinds:
            raise UserError(f"There is no kind of task {kind!r}; there are {', '.join(kinds)}.")
        return self.keep(kinds[kind](request))

    def keep(self, requested: RequestedTask) -> RequestedTask:
        """Remember a task by its id, and forget the oldest ones."""
        self._requested[requested.id] = requested
        while len(self._requested) > _MAX_KEPT:
            self._requested.pop(next(iter(self._requested)))
        return requested

    def get(self, id: str) -> RequestedTask:
        """An earlier task by its id."""
        if id not in self._requested:
            raise UserError("This task is no longer remembered here; choose it again.")
        return self._requested[id]

    def save(self, id: str, name: str) -> str:
        """Save a task in the run and return its name there; never overwrite another task."""
        task, run = self.get(id).task, self.run.directory
        path = run.task(slug(name)) if name else new_path(run, task)
        if name and path.exists():
            raise UserError(f"There is a task `{path.stem}` already; give this one another name.")
        task.save(path)
        return path.stem

    def saved_names(self) -> list[str]:
        """Names of the tasks saved in the run."""
        return [path.stem for path in self.run.directory.task_files()]

    def _painted(self, request: RequestFields) -> RequestedTask:
        world = painting.world(self.run)
        reward = request.numbers("reward", world.num_states)
        lines = _painted_lines(reward.reshape(world.height, world.width))
        return RequestedTask(painting.infer(self.run, reward), lines)

    def _random(self, request: RequestFields) -> RequestedTask:
        seed = request.integer("seed", 0, 2**31 - 1)
        return RequestedTask(self.run.skill(seed), [f"task = run.skill({seed})"])

    def _saved(self, request: RequestFields) -> RequestedTask:
        wanted = request.text("name", 200)
        files = {path.stem: path for path in self.run.directory.task_files()}
        if wanted not in files:  # looked up in a list, so no path is built from it
            listed = ", ".join(itertools.islice(files, 8)) or "none yet"
            raise UserError(f"The run keeps no task {wanted!r}; it keeps {listed}.")
        path = files[wanted]
        task = Task.load(path)
        self.run.policy(task)  # raises for a task of another run
        return RequestedTask(task, [f"task = visr.Task.load({str(path.resolve())!r})"])

    def _environment(self, request: RequestFields) -> RequestedTask:
        episodes = request.integer("episodes", 1, MAX_EPISODES, 10)
        steps = request.integer("steps", 100, MAX_STEPS, 10_000)
        seed = request.integer("seed", 0, 2**31 - 1, 0)
        method = request.text("method", 20, "best")
        inference = self.run.inference
        prompt = inference.prompt(reward="env")
        compared = inference.compare(prompt, num_episodes=episodes, num_steps=steps, seed=seed)
        task = inference.to_task(prompt, compared, method)
        counts = f"num_episodes={episodes}, num_steps={steps}, seed={seed}"
        lines = [
            f'compared = run.compare("env", {counts})',
            f'task = run.task_of(compared, {method!r}, "env")',
        ]
        return RequestedTask(task, lines, tuple(compared.words))

    def _expression(self, request: RequestFields) -> RequestedTask:
        text = request.text("text", expression.MAX_LENGTH).strip()
        if "#" in text:  # a comment could hide a file name
            raise UserError("An expression has no comments; leave out what begins with #.")
        lines = [f"task = run.infer({text!r})"]
        if self.run.world is not None:
            values = painting.preset(self.run, text)
            return RequestedTask(painting.infer(self.run, values, text), lines)
        return self._inferred(self.run.inference.prompt(reward=text), lines)

    def _inferred(self, prompt: Prompt, lines: list[str] | None) -> RequestedTask:
        """The best estimate with its diagnostics; without lines of Python, its direction."""
        inference = self.run.inference
        compared = inference.compare(prompt)
        task = inference.to_task(prompt, compared)
        if lines is None:
            lines = [f"{_direction_line(task)}  # {prompt.name}"]
        return RequestedTask(task, lines, tuple(compared.words))

    def _goal(self, request: RequestFields) -> RequestedTask:
        """Numbers of an observation, a step of the recording, a cell, or what is on the screen."""
        inference = self.run.inference
        if (session := request.text("session", 40, "")) != "":
            state = self._watching(session).state
            lines = [f"task = run.infer(goal=np.array({state.tolist()!r}))"]
            lines = lines if self._is_plain(state) else None
            return self._inferred(inference.goal_of(state), lines)
        text = request.text("text", expression.MAX_LENGTH).strip()
        if text.lower().endswith(".npy"):  # no request reads files
            raise UserError("The page reads no files; use `visr infer RUN --goal FILE.npy`.")
        return self._inferred(inference.prompt(goal=text), [f"task = run.infer(goal={text!r})"])

    def _demonstration(self, request: RequestFields) -> RequestedTask:
        """The steps of the episode that a page watches or drives."""
        states, actions = self._watching(request.text("session", 40)).trajectory()
        name = f"{len(actions)} watched step{'s' if len(actions) > 1 else ''}"
        lines = None
        if self._is_plain(states):
            lines = [
                f"observations = np.array({states.tolist()!r})",
                f"actions = np.array({actions.tolist()!r})",
                "task = run.infer(demonstration=(observations, actions))",
            ]
        known = np.append(actions, -1)  # the action after the last state is not known
        shown = self.run.inference.beside_recorded(Demonstration(name, states, known))
        return self._inferred(shown, lines)

    def _preferences(self, request: RequestFields) -> RequestedTask:
        """Answers to the page's questions."""
        answers = request.rows("answers", 3, preference_questions.MAX_ANSWERS).astype(np.intp)
        lines = preference_questions.lines(answers) if self.questions.is_kept else None
        return self._inferred(self.questions.prompt(answers), lines)

    def _watching(self, session: str) -> Watched:
        if session not in self._watched:
            raise UserError("This page's live session has ended; reload the page.")
        return self._watched[session]

    def _is_plain(self, states: NDArray) -> bool:
        """Whether Python can be given these states as they are: networks take the environment's own."""
        codec = self.run.inference.codec
        return codec.own_space == codec.space and states.size <= _MAX_INLINE

    def _marks(self, request: RequestFields) -> RequestedTask:
        d = self.run.config.agent.num_features
        phi = request.rows("phi", d, MAX_MARKS)
        liked = request.numbers("liked", len(phi))
        if not np.isin(liked, (-1, 0, 1)).all() or not liked.any() or np.ptp(liked) == 0:
            raise UserError(
                "Mark some frames as good (1) or bad (-1), and leave others unmarked (0)."
            )
        good, bad = int((liked > 0).sum()), int((liked < 0).sum())
        name = f"{good} good and {bad} bad frames"
        steps = collect.of_agent(RewardedSteps(phi, liked, np.arange(len(phi))), self.run.visr)
        compared = Reward(name, _FROM_MARKS).infer(self.run.visr, lambda: steps)
        task = self.run.task_of(compared, "best", name)
        task = dataclasses.replace(task, prompt=TaskPrompt("marks", name))
        return RequestedTask(task, [f"{_direction_line(task)}  # inferred from marked frames"])

    def _direction(self, request: RequestFields) -> RequestedTask:
        w = request.numbers("w", self.run.config.agent.num_features)
        task = self.run.skill(w, name="by hand")
        return RequestedTask(task, [_direction_line(task)])

    def _mixture(self, request: RequestFields) -> RequestedTask:
        parts = [
            (self.get(part.text("id", 40)), part.number("weight", -100, 100))
            for part in request.objects("parts", 4)
        ]
        task = mix([(part.task, weight) for part, weight in parts])
        lines, cosines, weighted = [], [], []
        for index, (part, weight) in enumerate(parts):
            lines += [line.replace("task = ", f"part_{index} = ", 1) for line in part.lines]
            weighted.append(f"(part_{index}, {weight!r})")
            cosines.append(f"cosine {cosine(task, part.task):+.2f} with {part.task.name}")
        lines.append(f"task = visr.mix([{', '.join(weighted)}])")
        return RequestedTask(task, lines, tuple(cosines))


def _painted_lines(reward: NDArray[np.float64]) -> list[str]:
    """Code that makes zeros, and then the painted cells row by row."""
    lines = [f"reward = np.zeros({reward.shape})"]
    for row, cells in enumerate(reward.tolist()):
        start = 0
        for value, group in itertools.groupby(cells):
            stop = start + len(list(group))
            if value:
                lines.append(f"reward[{row}, {start}:{stop}] = {value!r}")
            start = stop
    return [*lines, "task = run.infer(reward)"]


def _direction_line(task: Task) -> str:
    return f"task = run.skill({task.w.tolist()!r}, name={task.name!r})"
