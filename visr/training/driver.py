"""Drive a long job: write rows, evaluate, save checkpoints, stop when asked, recover lost progress."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Protocol, SupportsFloat

import safetensors.torch
from torch import Tensor

from visr import terminal
from visr.config import RunConfig
from visr.errors import Stopped, UserError
from visr.storage import new_files
from visr.storage.files import read_tensors, write_tensors, writing
from visr.storage.frame_store import FIELD
from visr.storage.run_dir import RunDir
from visr.storage.tables import read_rows, truncate_after
from visr.training import checkpoint
from visr.training.loop import Round
from visr.training.recorded_steps import RecordedSteps

log = terminal.logger()

_STOPPING = b"\nvisr: Stops after this round; a second Ctrl-C stops at once, without saving.\n"
_MAX_LOSSES = 3
"""Losses of progress since the same checkpoint after which the run gives up."""


class LostProgress(Exception):
    """Everything learned since the last checkpoint is lost; training can continue from there."""


@dataclass(frozen=True)
class Status:
    """The numbers of a progress display."""

    num_steps: int
    total_steps: int
    metrics: dict[str, float]
    evaluation: dict[str, float]
    stats: dict[str, float] = field(default_factory=dict)
    """Cluster statistics; empty on one machine."""
    trouble: str = ""
    """What is wrong with the metrics, in a few words."""
    note: str = ""
    """What the job is doing while no step is counted."""
    share: float | None = None
    """Share of the work that is done; None where steps measure it."""

    @property
    def done(self) -> float:
        """The share of the work that is done, at most 1."""
        return min(self.num_steps / self.total_steps if self.share is None else self.share, 1.0)


Observer = Callable[[Status], None]


class ReplayPieces(Protocol):
    """A replay buffer that is saved in pieces."""

    @property
    def max_steps(self) -> int:
        """Steps that it holds when it is full."""
        ...

    @property
    def num_missing(self) -> int:
        """Entries that the loaded state counts and `restore` has not brought back."""
        ...

    def new_piece(self) -> dict[str, Tensor]:
        """The data added since the last call."""
        ...

    def restore(self, piece: dict[str, Tensor]) -> None:
        """Put a piece back, oldest piece first; ValueError or TypeError if it does not fit."""


class Trainer(Protocol):
    """A job that trains in rounds; the driver decides when it logs, saves and stops."""

    @property
    def config(self) -> RunConfig:
        """The content of config.json."""
        ...

    @property
    def num_steps(self) -> int:
        """Steps so far; rows and checkpoints carry this number."""
        ...

    @property
    def total_steps(self) -> int:
        """Steps of the whole job."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        ...

    @property
    def can_save_now(self) -> bool:
        """Whether a checkpoint between two regular ones would be complete."""
        ...

    @property
    def replay(self) -> ReplayPieces | None:
        """Data that later updates need and that `state` leaves out."""
        ...

    def rounds(self) -> Generator[Round]:
        """Act and learn until done."""
        ...

    def extra_rows(self) -> Mapping[str, dict[str, float]]:
        """Rows for `online` and `cluster`, the tables beside metrics.csv, since the last call."""
        ...

    def reset_unsaveable_envs(self) -> None:
        """Reset and reseed environments whose state cannot be saved, as a resumed run will."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """All tensors and counts that a resumed run needs, except what `replay` holds."""
        ...

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        """The inverse of `state`."""

    def close(self) -> None:
        """End processes and environments."""


class RowWriter(Protocol):
    """Averages metrics between rows, and writes the rows."""

    def add(self, metrics: Sequence[Mapping[str, SupportsFloat]]) -> None:
        """Add the metrics of some updates."""

    def write(
        self, num_steps: int, num_updates: int, extra_rows: Mapping[str, dict[str, float]]
    ) -> None:
        """Write one row."""

    def status(
        self, num_steps: int, total_steps: int, evaluation: dict[str, float], note: str
    ) -> Status:
        """The latest numbers, for a progress display."""
        ...

    def state(self) -> dict[str, Tensor]:
        """The row that is not yet written."""
        ...

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Find the result of `state` among all tensors of a checkpoint."""

    def close(self) -> None:
        """Close open files."""


@dataclass(frozen=True)
class Every:
    """Steps between rows, between checkpoints and between evaluations."""

    log: int
    checkpoint: int
    evaluate: int = 1
    row_per_checkpoint: bool = False
    """Whether each checkpoint also writes a row."""


@dataclass(frozen=True)
class Hooks:
    """What differs between jobs."""

    rows: RowWriter
    resume_command: str
    """Shown to the user when the job stops early."""
    evaluate: Callable[[int], dict[str, float]] | None = None
    """Evaluate after so many steps and write evaluation.csv; returns the scores."""


def drive(
    run: RunDir, trainer: Trainer, every: Every, observe: Observer | None, hooks: Hooks
) -> None:
    """Train to the end; after `LostProgress` continue from the last checkpoint."""
    lost_at: list[int] = []
    with stop_requests() as stop, contextlib.closing(hooks.rows):
        while not trainer.is_done:
            try:
                _run_rounds(run, trainer, every, observe, hooks, stop)
            except LostProgress as error:
                lost_at.append(int(checkpoint.newest(run).stem))
                if lost_at[-_MAX_LOSSES:] == lost_at[-1:] * _MAX_LOSSES:
                    raise UserError(
                        f"{error} That happened {_MAX_LOSSES} times since step {lost_at[-1]:,}; "
                        f"the run is saved up to there: go on with `{hooks.resume_command}`."
                    ) from error
                log.warning("%s Training goes on from step %s.", error, f"{lost_at[-1]:,}")
                restore(run, trainer, hooks.rows)


def _run_rounds(
    run: RunDir,
    trainer: Trainer,
    every: Every,
    observe: Observer | None,
    hooks: Hooks,
    stop: list[int],
) -> None:
    rows, before = hooks.rows, trainer.num_steps
    evaluation: dict[str, float] = {}
    if hooks.evaluate and not read_rows(run.evaluation):
        hooks.evaluate(before)  # a row of the file; scores of an untrained agent are not progress
    for current in trainer.rounds():
        now = trainer.num_steps
        is_last_step = before < now >= trainer.total_steps
        saves = _crossed(before, now, every.checkpoint)
        rows.add(current.metrics)
        logs = is_last_step or _crossed(before, now, every.log)
        if logs or (saves and every.row_per_checkpoint):
            rows.write(now, current.num_updates, trainer.extra_rows())
        if hooks.evaluate and (is_last_step or _crossed(before, now, every.evaluate)):
            evaluation = hooks.evaluate(now)
        if saves or trainer.is_done:
            trainer.reset_unsaveable_envs()
            save(run, trainer, rows)
        if observe:
            status = rows.status(now, trainer.total_steps, evaluation, current.note)
            observe(replace(status, share=current.share))
        if stop and not trainer.is_done:
            if trainer.can_save_now and not saves:
                trainer.reset_unsaveable_envs()
                save(run, trainer, rows)
            raise stopped(run, stop[0], hooks.resume_command)
        before = now


def _crossed(before: int, now: int, every: int) -> bool:
    """Whether a multiple of `every` lies in (before, now]."""
    return now // every > before // every


def stopped(run: RunDir, signal_number: int, resume_command: str) -> Stopped:
    """Tell the user what is saved and how to continue."""
    saved = [int(path.stem) for path in run.checkpoints()]
    return Stopped(signal_number, max(saved, default=0), resume_command)


@contextlib.contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM, so that a round can finish; a second Ctrl-C interrupts at once."""
    requests: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield requests
        return

    def note(number: int, _frame: FrameType | None) -> None:
        if requests and number == signal.SIGINT:
            raise KeyboardInterrupt
        requests.append(number)
        if sys.stderr.isatty():  # not print, which the signal may have interrupted
            os.write(sys.stderr.fileno(), _STOPPING)

    previous = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requests
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def save(run: RunDir, trainer: Trainer, rows: RowWriter | None = None) -> None:
    """Write the new replay piece, then the checkpoint, which must find all earlier data on disk."""
    replay = trainer.replay
    if replay is not None and (piece := replay.new_piece()):
        path = run.replay_piece(trainer.num_steps)
        write_tensors(path, safetensors.torch.save(piece))
        if isinstance(replay, RecordedSteps):
            replay.saved(path)
    tensors, counts = trainer.state()
    tensors |= rows.state() if rows else {}
    checkpoint.save(run, tensors, counts, num_steps=trainer.num_steps)
    if not run.config_file.exists():  # a user deleted it; without it the checkpoint is no run
        run.write_config(trainer.config)
    run.remove_old_replay(0 if replay is None else replay.max_steps)


def restore(run: RunDir, trainer: Trainer, rows: RowWriter) -> None:
    """Load the newest intact checkpoint, and delete all that was written after it."""
    path, tensors, counts = checkpoint.newest_intact(run)
    with checkpoint.refuse_mismatch(path):
        rows.load_state(tensors)
        trainer.load_state(tensors, counts)
        if trainer.num_steps != int(path.stem):
            raise ValueError(f"it was saved at step {trainer.num_steps}")
    _restore_replay(run, trainer)
    run.rename_damaged_after(path)
    run.remove_old_checkpoints()  # a killed process may not have done so
    for file in (run.metrics, run.timing, run.cluster_stats, run.evaluation, run.online):
        truncate_after(file, trainer.num_steps)
    checkpoint.warn_of_changed_tables(run, path)


def _restore_replay(run: RunDir, trainer: Trainer) -> None:
    """Restore the replay buffer; refuse an incomplete one."""
    replay, way_out = trainer.replay, "restore it from a copy, or start over"
    newer = [path for path in run.replay_pieces() if int(path.stem) > trainer.num_steps]
    for path in run.replay_pieces():
        if replay is None or path in newer:
            continue
        piece = read_tensors(path, way_out, mapped=FIELD)
        try:
            replay.restore(piece)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} does not fit its run ({error}); {way_out}.") from None
    if replay is not None and replay.num_missing:
        raise UserError(
            f"{run.replay} does not hold all steps before step {trainer.num_steps:,} (entries missing: "
            f"{replay.num_missing}); {way_out}."
        )
    for path in newer:
        with writing(path):
            new_files.remove(path)
