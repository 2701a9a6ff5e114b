"""What a run leaves on disk; nothing else knows the file names.

config.json                     what was asked for, and the version of this layout
metrics.csv                     one row per `log_every` steps; no clock in it, so equal runs are equal files
timing.csv                      how fast it went
cluster.csv                     how those who act and learn elsewhere fared (if there is a cluster)
online.csv                      returns of the rewarded environments while the others pre-train (if any)
evaluation.csv                  exact fractions of optimal over training (grid worlds)
checkpoints/STEPS.safetensors   everything needed to go on; the last two are kept
portrait.safetensors            what the report draws of phi and psi
recorded.safetensors            a reward-free sample with its features, where observations are small
job.json                        which agent of which plan it is, if `visr reproduce` made it
phase_two.json                  what the rewarded phase came to: raw scores of whole episodes
adapted.json                    the same of other ways to spend as many rewarded steps, if a plan took them
tasks/NAME.json                 inferred tasks, and NAME.evaluation.json beside them
finetuned/NAME/                 runs of their own: a psi trained further on a task's reward, with
    finetune.json               how, and for which task
    replay/STEPS.safetensors    the rewarded steps, in pieces from checkpoint to checkpoint
    finetuned.json              what it was worth before and after
report/, tensorboard/           for people
run.lock                        while somebody writes; it names the process
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from visr import config as configuration
from visr.config import RunConfig
from visr.errors import UserError
from visr.storage import checksums as seal
from visr.storage import lock
from visr.storage.files import read_json, reading, write_json, writing
from visr.storage.tables import read_rows, rows_until

FORMAT = 1


class RunDir:
    """Paths and plain files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.metrics = self.path / "metrics.csv"
        self.timing = self.path / "timing.csv"
        self.vitals = self.path / "cluster.csv"
        self.online = self.path / "online.csv"
        self.evaluation = self.path / "evaluation.csv"
        self.recorded = self.path / "recorded.safetensors"
        self.phase_two = self.path / "phase_two.json"
        self.adapted = self.path / "adapted.json"
        self.job = self.path / "job.json"
        self.portrait = self.path / "portrait.safetensors"
        self.tasks = self.path / "tasks"
        self.finetune = self.path / "finetune.json"
        self.finetuned = self.path / "finetuned.json"
        self.replay = self.path / "replay"
        self.report = self.path / "report"
        self.tensorboard = self.path / "tensorboard"
        self._lock = self.path / "run.lock"
        self._checkpoints = self.path / "checkpoints"

    @classmethod
    def create(cls, path: str | Path, config: RunConfig) -> RunDir:
        """A new run at a place where nothing is yet."""
        run = cls(path)
        is_new = run.refuse_taken()
        try:
            run.write_config(config)
        except UserError:
            if is_new:
                with contextlib.suppress(OSError):
                    run.path.rmdir()
            raise
        return run

    def write_config(self, config: RunConfig) -> None:
        """What makes a directory a run."""
        content = {"format": FORMAT, "config": configuration.to_dict(config)}
        write_json(self.config_file, content)

    @contextlib.contextmanager
    def locked(self, patience: float = lock.PATIENCE) -> Iterator[None]:
        """Hold the run, as all do who train in it: one process at a time; readers need no leave."""
        with contextlib.ExitStack() as stack:
            with writing(self.path):
                new = [place for place in (self.path, *self.path.parents) if not place.exists()]
                for place in reversed(
                    new
                ):  # all that is made here goes again, if nothing comes of it
                    place.mkdir(exist_ok=True)
                    stack.callback(_remove_if_empty, place)
                stack.enter_context(lock.held(self._lock, self._in_use, patience))
            yield

    @property
    def is_in_use(self) -> bool:
        """Whether a living process trains in it."""
        return lock.is_held(self._lock)

    def _in_use(self, holder: str) -> str:
        return (
            f"{self.path} is in use: {holder} trains in it; wait for it, stop it, "
            "or choose another directory."
        )

    def refuse_taken(self) -> bool:
        """Nothing may be here yet; whether there is not even an empty directory."""
        with writing(self.path):
            is_new = not self.path.exists()
            if not is_new and not self._is_empty():
                raise UserError(
                    f"{self.path} exists already; choose another --out, "
                    f"or go on with `--resume {self.path}`."
                )
        return is_new

    def _is_empty(self) -> bool:
        """Whether a run can begin here; what a killed process left half-written does not count."""
        if not self.path.is_dir():
            return False
        return all(p == self._lock or p.name.endswith(".partial") for p in self.path.iterdir())

    def remove_incomplete(self) -> None:
        """Undo `create` if the first checkpoint could not be saved."""
        with contextlib.suppress(OSError):
            self.config_file.unlink()
            for partial in self._checkpoints.glob("*"):
                partial.unlink()
            self._checkpoints.rmdir()
        with contextlib.suppress(OSError):
            self.path.rmdir()

    @classmethod
    def open(cls, path: str | Path) -> RunDir:
        """An existing run, checked as far as its configuration goes."""
        run = cls(path)
        with reading(run.path):
            is_directory, has_config = run.path.is_dir(), run.config_file.is_file()
        if not is_directory:
            raise UserError(f"There is no run at {run.path}; `visr pretrain` makes one.")
        if not has_config:
            raise UserError(
                f"{run.path} holds no run (no config.json); name a run's own directory."
            )
        run.config()
        run.refuse_links()
        return run

    def refuse_links(self) -> None:
        """A run is written to below its own directory alone, wherever it comes from."""
        inner = (self.tasks, self.report, self.replay, self.tensorboard, self._checkpoints)
        adapted = self.finetuned_run("")
        for place in (*inner, adapted, *adapted.glob("*")):
            if place.is_symlink():
                raise UserError(
                    f"{place} is a link to {os.readlink(place)}, out of the run; put what it holds "
                    "in its place, or remove it."
                )

    def config(self) -> RunConfig:
        """What was asked for."""
        content = read_json(self.config_file)
        if not isinstance(content, dict) or "format" not in content:
            raise UserError(f"{self.config_file} is not a run's configuration; the run is damaged.")
        if content["format"] != FORMAT:
            raise UserError(
                f"{self.path} was written in format {content['format']!r} and this visr reads "
                f"format {FORMAT}; use the version of visr that wrote it."
            )
        try:
            return configuration.from_dict(content.get("config"))
        except UserError as error:
            raise UserError(f"{self.config_file}: {error}") from None

    @property
    def is_finetuned(self) -> bool:
        """Whether it went on from another run, for one reward: its steps are rewarded ones, then."""
        return self.finetune.is_file()

    def checkpoint(self, num_steps: int) -> Path:
        """Where the checkpoint of that age lives."""
        return self._checkpoints / f"{num_steps:012d}.safetensors"

    def checkpoints(self) -> list[Path]:
        """Finished checkpoints, oldest first; what is not named by its age is none of ours."""
        files = self._checkpoints.glob("*.safetensors")
        return sorted(p for p in files if p.stem.isascii() and p.stem.isdecimal())

    def forget_old_checkpoints(self, keep: int = 2) -> None:
        """Remove all but the newest, what a killed process left, and what was damaged and is replaced."""
        known, place = self.checkpoints(), self._checkpoints
        replaced = [p for p in place.glob("*.damaged") if known and p.with_suffix("") <= known[-1]]
        for path in [*known[:-keep], *place.glob("*.partial"), *replaced]:
            path.unlink(missing_ok=True)

    def set_aside_after(self, sound: Path) -> None:
        """Checkpoints newer than the last sound one make way, until the next one is written."""
        for path in self.checkpoints():
            if path > sound:
                with writing(path):
                    os.replace(path, path.with_name(f"{path.name}.damaged"))

    def table_checksums(self, num_steps: int) -> dict[str, str]:
        """Of the rows up to an age in the tables that results are drawn from; a checkpoint keeps them."""
        checksums = {}
        for file in (self.metrics, self.evaluation, self.online):
            with contextlib.suppress(UserError):  # a damaged table must not stop training
                if file.exists():
                    checksums[file.name] = seal.of_text(rows_until(file, num_steps))
        return checksums

    def changed_tables(self, checkpoint: Path) -> list[Path]:
        """Tables that are not as they were when that checkpoint was written; it may know of none."""
        try:
            known = dict(json.loads(seal.metadata(checkpoint).get("tables", "{}")))
        except (AttributeError, OSError, TypeError, ValueError):  # its reader will say so
            return []
        now = self.table_checksums(int(checkpoint.stem))
        return [self.path / name for name in sorted(known) if now.get(name) != known[name]]

    def last_row(self, path: Path) -> dict[str, float]:
        """The newest row of one of the run's CSV files, or nothing."""
        rows = read_rows(path)
        return rows[-1] if rows else {}

    def replay_piece(self, num_steps: int) -> Path:
        """Where the rewarded steps up to that age live, from the checkpoint before."""
        return self.replay / f"{num_steps:012d}.safetensors"

    def replay_pieces(self) -> list[Path]:
        """In order of age."""
        return sorted(p for p in self.replay.glob("*.safetensors") if p.stem.isdecimal())

    def forget_old_replay(self, num_remembered: int) -> None:
        """Remove pieces of which not even the oldest kept checkpoint remembers anything."""
        oldest = int(self.checkpoints()[0].stem)
        for path in self.replay_pieces():
            if int(path.stem) <= oldest - num_remembered:
                path.unlink()

    def finetuned_run(self, name: str) -> Path:
        """Where fine-tuning under that name lives."""
        return self.path / "finetuned" / name

    def task(self, name: str) -> Path:
        """Where the task of that name lives."""
        return self.tasks / f"{name}.json"

    def task_files(self) -> list[Path]:
        """Saved tasks, without their evaluations."""
        return sorted(
            p for p in self.tasks.glob("*.json") if not p.name.endswith(".evaluation.json")
        )


def _remove_if_empty(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rmdir()


def slug(text: str) -> str:
    """A file name made of a reward's words."""
    words = Path(text).stem if text.lower().endswith((".npy", ".csv")) else text
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60] or "task"


def evaluation_of(task_file: Path) -> Path:
    """Where the evaluation of a task lives: beside it."""
    return task_file.with_name(f"{task_file.stem}.evaluation.json")
