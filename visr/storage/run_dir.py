"""The files of a run; only this module knows their names.

config.json                     the configuration and the version of this layout
metrics.csv                     one row per `log_every` steps; no times, so that equal runs give equal files
timing.csv                      steps per second
cluster.csv                     statistics of remote actors and learners (on a cluster)
online.csv                      returns of the rewarded environments (if any)
evaluation.csv                  exact fractions of optimal over training (grid worlds)
checkpoints/STEPS.safetensors   everything needed to resume; the last two are kept
imagined.safetensors            real steps beside a world model's predictions of them (SimPLe)
portrait.safetensors            a snapshot of phi and psi on the grid, for the report's maps
library.json                    the tasks that the replay learner practised, in words
recorded.safetensors            reward-free steps with their features, if observations are small
job.json                        agent and plan, if `visr reproduce` made the run
phase_two.json                  raw scores after the paper's rewarded phase
adapted.json                    raw scores after other uses of the rewarded steps, if a plan asked for them
tasks/NAME.json                 inferred tasks, and NAME.evaluation.json beside them
tasks/NAME.*.safetensors        weights of refined tasks
finetuned/NAME/                 runs of their own, fine-tuned on the reward of a task, with
    finetune.json               settings and task
    replay/STEPS.safetensors    the rewarded steps between two checkpoints
    finetuned.json              scores before and after
report/, tensorboard/           figures and pages
wandb.json, wandb/              the id of the log and its files, with `--wandb`
run.lock                        exists while a process trains; it names the process
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from visr import config as configuration
from visr import strict_json
from visr.config import RunConfig
from visr.errors import UserError, short_repr
from visr.storage import lock, new_files, schema
from visr.storage.files import (
    UnreadableFile,
    read_json,
    reading,
    sha256,
    tensor_metadata,
    write_json,
    writing,
)
from visr.storage.tables import read_rows, rows_until

FORMAT = 1
_FINETUNED = "finetuned"


class RunDir:
    """Paths and files of one run."""

    def __init__(self, path: str | Path, allow_retired: bool = False) -> None:
        self.path, self._allow_retired = Path(path), allow_retired
        is_inner = self.path.parent.name == _FINETUNED
        new_files.confine(self.path.parent.parent if is_inner else self.path)
        self.config_file = self.path / "config.json"
        self.metrics = self.path / "metrics.csv"
        self.timing = self.path / "timing.csv"
        self.cluster_stats = self.path / "cluster.csv"
        self.online = self.path / "online.csv"
        self.evaluation = self.path / "evaluation.csv"
        self.recorded = self.path / "recorded.safetensors"
        self.library = self.path / "library.json"
        self.phase_two = self.path / "phase_two.json"
        self.adapted = self.path / "adapted.json"
        self.job = self.path / "job.json"
        self.grid_snapshot = self.path / "portrait.safetensors"  # its name in older runs, too
        self.imagined = self.path / "imagined.safetensors"
        self.tasks = self.path / "tasks"
        self.finetune = self.path / "finetune.json"
        self.finetuned = self.path / "finetuned.json"
        self.replay = self.path / "replay"
        self.report = self.path / "report"
        self.tensorboard = self.path / "tensorboard"
        self.wandb = self.path / "wandb"
        self.wandb_id = self.path / "wandb.json"
        self._lock = self.path / "run.lock"
        self._checkpoints = self.path / "checkpoints"

    @classmethod
    def create(cls, path: str | Path, config: RunConfig) -> RunDir:
        """A new run in a directory that is empty or does not exist."""
        run = cls(path)
        is_new = run.refuse_existing()
        try:
            run.write_config(config)
        except UserError:
            if is_new:
                _remove_if_empty(run.path)
            raise
        return run

    def write_config(self, config: RunConfig) -> None:
        """Write config.json, which makes a directory a run."""
        content = {"format": FORMAT, "config": configuration.to_dict(config)}
        write_json(self.config_file, content)

    @contextlib.contextmanager
    def locked(self, timeout: float = lock.TIMEOUT) -> Iterator[None]:
        """Lock the run for training: one process at a time. Readers need no lock."""
        with contextlib.ExitStack() as stack:
            with writing(self.path):
                new = [place for place in (self.path, *self.path.parents) if not place.exists()]
                for place in reversed(new):  # removed again if they stay empty
                    new_files.make_directories(place)
                    stack.callback(_remove_if_empty, place)
                stack.enter_context(lock.held(self._lock, self._in_use, timeout))
            yield

    @property
    def is_in_use(self) -> bool:
        """Whether a running process trains in it."""
        return lock.is_held(self._lock)

    def _in_use(self, holder: str) -> str:
        return (
            f"{self.path} is in use: {holder} trains in it; wait for it, stop it, "
            "or choose another directory."
        )

    def refuse_existing(self) -> bool:
        """Refuse a directory that holds anything; return whether it does not exist."""
        with writing(self.path):
            is_new = not self.path.exists()
            if not is_new and not self._is_empty():
                raise UserError(
                    f"{self.path} exists already; choose another --out, "
                    f"or go on with `--resume {self.path}`."
                )
        return is_new

    def _is_empty(self) -> bool:
        """Whether a run can start here; incomplete files of a killed process do not count."""
        if not self.path.is_dir():
            return False
        return all(
            p == self._lock or p.name.endswith(new_files.PARTIAL) for p in self.path.iterdir()
        )

    def remove_incomplete(self) -> None:
        """Undo `create` if the first checkpoint could not be saved."""
        with contextlib.suppress(OSError):
            new_files.remove(self.config_file)
            new_files.remove(self.wandb_id)
            shutil.rmtree(self.wandb, ignore_errors=True)
            for partial in self._checkpoints.glob("*"):
                new_files.remove(partial)
            self._checkpoints.rmdir()
        _remove_if_empty(self.path)

    @classmethod
    def open(cls, path: str | Path, allow_retired: bool = False) -> RunDir:
        """An existing run; its configuration is checked, and may hold retired choices if allowed."""
        run = cls(path, allow_retired)
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
        """Refuse symbolic links inside an untrusted run: nothing is written outside its directory."""
        inner = (
            self.tasks,
            self.report,
            self.replay,
            self.tensorboard,
            self.wandb,
            self._checkpoints,
        )
        adapted = self.finetuned_run("")
        for place in (*inner, adapted, *adapted.glob("*")):
            if place.is_symlink():
                raise UserError(
                    f"{place} is a link to {os.readlink(place)}, out of the run; put what it holds "
                    "in its place, or remove it."
                )

    def config(self) -> RunConfig:
        """The run's configuration."""
        content = read_json(self.config_file)
        if not isinstance(content, dict) or "format" not in content:
            raise UserError(f"{self.config_file} is not a run's configuration; the run is damaged.")
        if type(content["format"]) is not int or content["format"] != FORMAT:
            raise UserError(
                f"{self.path} was written in format {short_repr(content['format'])} and this visr reads "
                f"format {FORMAT}; use the version of visr that wrote it."
            )
        try:
            return configuration.from_dict(content.get("config"), self._allow_retired)
        except UserError as error:
            raise UserError(f"{self.config_file}: {error}") from None

    @property
    def is_finetuned(self) -> bool:
        """Whether `visr finetune` made it; then its steps are rewarded ones."""
        return self.finetune.is_file()

    def checkpoint(self, num_steps: int) -> Path:
        """The path of the checkpoint at that step."""
        return self._checkpoints / f"{num_steps:012d}.safetensors"

    def checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first; other files are ignored."""
        return _files_by_step(self._checkpoints)

    def remove_old_checkpoints(self, keep: int = 2) -> None:
        """Remove all but the newest, incomplete files, and damaged ones that were replaced."""
        known, place = self.checkpoints(), self._checkpoints
        replaced = [p for p in place.glob("*.damaged") if known and p.with_suffix("") <= known[-1]]
        for path in [*known[:-keep], *place.glob(f"*{new_files.PARTIAL}"), *replaced]:
            new_files.remove(path)

    def rename_damaged_after(self, newest_good: Path) -> None:
        """Rename checkpoints newer than the last undamaged one; they are removed later."""
        for path in self.checkpoints():
            if path > newest_good:
                with writing(path):
                    new_files.rename(path, f"{path.name}.damaged")

    def table_checksums(self, num_steps: int) -> dict[str, str]:
        """Checksums of the rows up to `num_steps` in the tables of results; a checkpoint stores them."""
        known = {}
        for file in self._result_tables():
            try:
                if file.exists():
                    known[file.name] = sha256(rows_until(file, num_steps))
            except UnreadableFile:  # the checkpoint would lack its checksum for good
                raise
            except UserError:  # a damaged table must not stop training
                continue
        return known

    def changed_tables(self, checkpoint: Path) -> list[Path]:
        """Tables whose rows have changed since that checkpoint was written."""
        try:
            content = strict_json.parse(tensor_metadata(checkpoint).get("tables", "{}"))
            known = schema.convert(content, dict[str, str], "tables")
        except (OSError, ValueError):  # `checkpoint.load` reports it
            return []
        now = self.table_checksums(int(checkpoint.stem))
        tables = [file for file in self._result_tables() if file.name in known]
        return [file for file in tables if now.get(file.name) != known[file.name]]

    def _result_tables(self) -> tuple[Path, ...]:
        """The tables whose rows a checkpoint vouches for; a checkpoint can name no others."""
        return (self.evaluation, self.metrics, self.online)

    def last_row(self, path: Path) -> dict[str, float]:
        """The last row of one of the run's CSV files, or an empty dictionary."""
        rows = read_rows(path)
        return rows[-1] if rows else {}

    def replay_piece(self, num_steps: int) -> Path:
        """The path of the rewarded steps between the previous checkpoint and this step."""
        return self.replay / f"{num_steps:012d}.safetensors"

    def replay_pieces(self) -> list[Path]:
        """Files of rewarded steps, oldest first."""
        return _files_by_step(self.replay)

    def remove_old_replay(self, capacity: int) -> None:
        """Remove files whose steps are no longer in the replay buffer of the oldest kept checkpoint."""
        oldest = int(self.checkpoints()[0].stem)
        for path in self.replay_pieces():
            if int(path.stem) <= oldest - capacity:
                new_files.remove(path)

    def finetuned_run(self, name: str) -> Path:
        """The directory of a fine-tuned run of that name."""
        return self.path / _FINETUNED / name

    def task(self, name: str) -> Path:
        """The path of the task of that name."""
        return self.tasks / f"{name}.json"

    def task_files(self) -> list[Path]:
        """Saved tasks, without their evaluations."""
        return sorted(
            p for p in self.tasks.glob("*.json") if not p.name.endswith(".evaluation.json")
        )


def _remove_if_empty(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rmdir()


def _files_by_step(place: Path) -> list[Path]:
    files = place.glob("*.safetensors")
    return sorted(p for p in files if p.stem.isascii() and p.stem.isdecimal())


def slug(text: str) -> str:
    """A file name made from the text of a reward."""
    words = Path(text).stem if text.lower().endswith((".npy", ".csv")) else text
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60] or "task"


def evaluation_of(task_file: Path) -> Path:
    """The path of a task's evaluation, beside the task."""
    return task_file.with_name(f"{task_file.stem}.evaluation.json")
