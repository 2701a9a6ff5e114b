"""Rows of a training run: metrics, timing, rewarded episodes, cluster statistics, and TensorBoard."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import torch
from torch import Tensor

from visr.errors import UserError
from visr.storage.files import writing
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows
from visr.training import diagnostics
from visr.training.learner import within
from visr.training.progress import Status

log = logging.getLogger("visr")

_STATE = "recorder."


class MetricsWriter:
    """Averages the metrics of all updates between two rows, and writes the rows."""

    def __init__(self, run: RunDir) -> None:
        self._run, self._sums, self._count = run, {}, 0
        self._config = run.config()  # read now: a user may delete the file during training
        self._latest: dict[str, float] = {}
        self._latest_online: dict[str, float] = {}
        self._latest_stats: dict[str, float] = {}
        self._board: Any = None
        self._since = (time.perf_counter(), -1)
        self._trouble: diagnostics.Trouble | None = None
        self._troubled_rows = 0

    def add(self, metrics: Sequence[Mapping[str, SupportsFloat]]) -> None:
        """Add the metrics of some updates."""
        for update in metrics:
            for name, value in update.items():
                self._sums[name] = self._sums.get(name, 0.0) + float(value)
        self._count += len(metrics)

    def write(
        self, num_steps: int, num_updates: int, extra_rows: Mapping[str, dict[str, float]]
    ) -> None:
        """Write the means since the last row to metrics.csv, and the other tables' rows to theirs."""
        if self._count:
            self._write_metrics(num_steps, num_updates)
        if stats := extra_rows.get("cluster"):
            self._latest_stats = stats  # they contain times, so they have a table of their own
            rounded = [f"{value:.6g}" for value in stats.values()]
            append_rows(self._run.cluster_stats, ["num_steps", *stats], [[num_steps, *rounded]])
            self.plot({f"cluster/{k}": v for k, v in stats.items()}, num_steps)
        if online := extra_rows.get("online"):
            self._latest_online = online
            append_rows(self._run.online, ["num_steps", *online], [[num_steps, *online.values()]])
            self.plot({f"online/{k}": v for k, v in online.items()}, num_steps)

    def _write_metrics(self, num_steps: int, num_updates: int) -> None:
        means = {name: self._sums[name] / self._count for name in sorted(self._sums)}
        self._latest = means
        for name, value in means.items():
            if not math.isfinite(value):
                raise UserError(diagnostics.diverged(num_steps, name, str(value)))
        row = {"num_steps": num_steps, "num_updates": num_updates, **means}
        append_rows(self._run.metrics, list(row), [list(row.values())])
        self._sums, self._count = {}, 0
        self._write_timing(num_steps)
        self.plot(means, num_steps)
        self._diagnose(num_steps)

    def _write_timing(self, num_steps: int) -> None:
        now, (then, before) = time.perf_counter(), self._since
        self._since = (now, num_steps)
        if before >= 0:
            row = [num_steps, f"{now - then:.3f}", f"{(num_steps - before) / (now - then):.0f}"]
            append_rows(self._run.timing, ["num_steps", "seconds", "steps_per_second"], [row])

    def _diagnose(self, num_steps: int) -> None:
        """Warn once about a problem; stop if it persists, unless the run is set to continue."""
        trouble = self._trouble = diagnostics.trouble(self._config.agent, self._latest)
        self._troubled_rows = self._troubled_rows + 1 if trouble else 0
        if not trouble:
            return
        if self._troubled_rows == 1:
            log.warning("visr: At step %s %s.", f"{num_steps:,}", trouble.evidence)
        if (
            self._troubled_rows >= diagnostics.PATIENCE
            and self._config.training.on_trouble == "stop"
        ):
            raise UserError(
                f"Stopped at step {num_steps:,}: {trouble.evidence}, in {self._troubled_rows} rows of "
                f"metrics in a row; {trouble.advice}, or see it out with --on-trouble warn."
            )

    def status(
        self, num_steps: int, total_steps: int, evaluation: dict[str, float], note: str
    ) -> Status:
        """The latest numbers, for a progress display."""
        shown = {**evaluation, **self._latest_online}
        trouble = self._trouble.name if self._trouble else ""
        return Status(
            num_steps, total_steps, self._latest, shown, self._latest_stats, trouble, note
        )

    def plot(self, values: dict[str, float], num_steps: int) -> None:
        """Add values to the TensorBoard log."""
        if self._board is not None and not self._run.tensorboard.exists():  # a user deleted it
            with contextlib.suppress(OSError):
                self._board.close()
            self._board = None
        if self._board is None:
            from torch.utils.tensorboard.writer import SummaryWriter

            with writing(self._run.tensorboard):
                self._board = SummaryWriter(str(self._run.tensorboard), purge_step=num_steps)
        with writing(self._run.tensorboard):
            for name, value in values.items():
                self._board.add_scalar(name, value, num_steps)

    def close(self) -> None:
        """Close the TensorBoard file."""
        if self._board is not None:
            with writing(self._run.tensorboard):
                self._board.close()
            self._board = None

    def state(self) -> dict[str, Tensor]:
        """The sums of the row that is not yet written."""
        sums = {f"sum.{k}": torch.tensor(v, dtype=torch.float64) for k, v in self._sums.items()}
        counts = {
            "count": torch.tensor(self._count),
            "troubled_rows": torch.tensor(self._troubled_rows),
        }
        return {f"{_STATE}{k}": v for k, v in (counts | sums).items()}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`; the first checkpoint of a run holds no sums."""
        self.close()
        self._since = (time.perf_counter(), -1)
        mine = within(tensors, _STATE)
        self._count = int(mine.get("count", 0))
        self._troubled_rows = int(mine.get("troubled_rows", 0))
        self._sums = {k: float(v) for k, v in within(mine, "sum.").items()}
