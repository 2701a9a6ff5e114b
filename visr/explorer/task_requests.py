"""A wish from the page becomes a task: random, saved, the environment's, in words, by marks, by hand."""

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
from visr.explorer.validation import Fields
from visr.inference import compare, dataset, expression, mixing, regression
from visr.storage import task_store
from visr.storage.records.task import Task

MOST_EPISODES, MOST_STEPS = 50, 100_000
"""With rewards on: the paper's."""
MOST_MARKS = 400
_REMEMBERED = 200
_FROM_MARKS = InferenceConfig(centred=True, ridge=0.1)


@dataclass(frozen=True, eq=False)
class Granted:
    """A task, how to get it again in Python, and words about it."""

    id: str
    task: Task
    lines: python_snippets.Lines
    words: tuple[str, ...] = ()

    def to_dict(self, run: Run) -> dict[str, Any]:
        """What the page shows of it."""
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


class Wishes:
    """Grants wishes for one run, and remembers the latest ones by an id."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._granted: collections.OrderedDict[str, Granted] = collections.OrderedDict()

    def grant(self, wish: Fields, kind: str | None = None) -> Granted:
        """The task that a wish describes."""
        kind = wish.text("kind", 20) if kind is None else kind
        grants: dict[
            str, Callable[[Fields], tuple[Task, python_snippets.Lines, tuple[str, ...]]]
        ] = {
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
            raise UserError(f"There is no wish {kind!r}; there are {', '.join(grants)}.")
        granted = Granted(secrets.token_hex(8), *grants[kind](wish))
        self._granted[granted.id] = granted
        while len(self._granted) > _REMEMBERED:
            self._granted.popitem(last=False)
        return granted

    def recall(self, id: str) -> Granted:
        """A task granted before."""
        if id not in self._granted:
            raise UserError("This task is no longer remembered here; choose it again.")
        return self._granted[id]

    def save(self, id: str, name: str) -> str:
        """Keep a task in the run; the answer is its name there. An earlier one of another reward stays."""
        task = self.recall(id).task
        stem = task_store.slug(name or task.name)
        if not name:
            path = task_store.place(self.run.directory, task)
        else:
            path = self.run.directory.task(stem)
            if path.exists():
                raise UserError(f"There is a task `{stem}` already; give this one another name.")
        return task_store.keep(task, path).stem

    def saved_names(self) -> list[str]:
        """Tasks that the run keeps."""
        return [path.stem for path in self.run.directory.task_files()]

    def _painted(self, wish: Fields) -> tuple[Task, python_snippets.Lines, tuple[str, ...]]:
        world = painting.world(self.run)
        reward = wish.numbers("reward", world.num_states)
        task = painting.infer(self.run, reward)
        return task, python_snippets.painted(reward, world.height, world.width), ()

    def _random(self, wish: Fields) -> tuple[Task, python_snippets.Lines, tuple[str, ...]]:
        seed = wish.integer("seed", 0, 2**31 - 1)
        return self.run.skill(seed), python_snippets.skill(seed), ()

    def _saved(self, wish: Fields) -> tuple[Task, python_snippets.Lines, tuple[str, ...]]:
        wanted = wish.text("name", 200)
        files = {path.stem: path for path in self.run.directory.task_files()}
        if wanted not in files:  # looked up, never joined to a path
            raise UserError(f"The run keeps no task {wanted!r}; it keeps {_listed(files)}.")
        task = Task.load(files[wanted])
        self.run.policy(task)  # refuses tasks of other runs
        return task, python_snippets.saved(files[wanted]), ()

    def _environment(self, wish: Fields) -> tuple[Task, python_snippets.Lines, tuple[str, ...]]:
        episodes = wish.integer("episodes", 1, MOST_EPISODES, 10)
        steps = wish.integer("steps", 100, MOST_STEPS, 10_000)
        seed = wish.integer("seed", 0, 2**31 - 1, 0)
        method = wish.text("method", 20, "best")
        compared = self.run.compare("env", num_episodes=episodes, num_steps=steps, seed=seed)
        task = self.run.task_of(compared, method, "env")
        return (
            task,
            python_snippets.environment(episodes, steps, seed, method),
            tuple(compared.words),
        )

    def _expression(self, wish: Fields) -> tuple[Task, python_snippets.Lines, tuple[str, ...]]:
        text = wish.text("text", expression.MAX_LENGTH).strip()
        if "#" in text:  # Python would end the expression there, and what follows might name a file
            raise UserError("An expression has no comments; leave out what begins with #.")
        if self.run.world is not None:
            values = painting.preset(self.run, text)
            return painting.infer(self.run, values, text), python_snippets.expression(text), ()
        compared = compare.compare(dataset.from_recording(self.run.recording(), text))
        task = self.run.task_of(compared, "best", text)
        return task, python_snippets.expression(text), tuple(compared.words)

    def _marks(self, wish: Fields) -> tuple[Task, python_snippets.Lines, tuple[str, ...]]:
        d = self.run.config.agent.num_features
        phi = wish.rows("phi", d, MOST_MARKS)
        liked = wish.numbers("liked", len(phi))
        if not np.isin(liked, (-1, 0, 1)).all() or not liked.any() or np.ptp(liked) == 0:
            raise UserError(
                "Mark some frames as good (1) or bad (-1), and leave others unmarked (0)."
            )
        good, bad = int((liked > 0).sum()), int((liked < 0).sum())
        name = f"{good} good and {bad} bad frames"
        task = regression.by_regression(phi, liked, _FROM_MARKS, name=name, env=self.run.config.env)
        return task, python_snippets.direction(task.w, name, "inferred from marked frames"), ()

    def _direction(self, wish: Fields) -> tuple[Task, python_snippets.Lines, tuple[str, ...]]:
        w = wish.numbers("w", self.run.config.agent.num_features)
        task = self.run.skill(w, name="by hand")
        return task, python_snippets.direction(task.w, task.name), ()

    def _mixture(self, wish: Fields) -> tuple[Task, python_snippets.Lines, tuple[str, ...]]:
        parts = [
            (self.recall(part.text("id", 40)), part.number("weight", -100, 100))
            for part in wish.objects("parts", 4)
        ]
        task = mixing.mix([(granted.task, weight) for granted, weight in parts])
        lines = python_snippets.mixture([(granted.lines, weight) for granted, weight in parts])
        cosines = [
            f"cosine {mixing.cosine(task, granted.task):+.2f} with {granted.task.name}"
            for granted, _ in parts
        ]
        return task, lines, tuple(cosines)


def _listed(names: Any) -> str:
    shown = list(itertools.islice(names, 8))
    return ", ".join(shown) if shown else "none yet"
