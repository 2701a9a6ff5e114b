"""What a run writes down while it trains: metrics, timing, rewarded games, and all of it for TensorBoard."""

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

log = logging.getLogger("visr")


class Recorder:
    """Averages what updates report between two rows of metrics, and writes the rows."""

    def __init__(self, run: RunDir) -> None:
        self._run, self._sums, self._count = run, {}, 0
        self._config = run.config()  # the file may be removed meanwhile
        self.latest: dict[str, float] = {}
        self.latest_online: dict[str, float] = {}
        self.latest_vitals: dict[str, float] = {}
        self._board: Any = None
        self._since = (time.perf_counter(), -1)
        self.trouble: diagnostics.Trouble | None = None
        self._troubled_rows = 0

    def add(self, metrics: Sequence[Mapping[str, SupportsFloat]]) -> None:
        """Take in the reports of some updates."""
        for report in metrics:
            for name, value in report.items():
                self._sums[name] = self._sums.get(name, 0.0) + float(value)
        self._count += len(metrics)

    def write(self, num_steps: int, num_updates: int) -> None:
        """One row of means since the last row."""
        if not self._count:
            return
        self.latest = {name: self._sums[name] / self._count for name in sorted(self._sums)}
        self._refuse_divergence(num_steps)
        row = {"num_steps": num_steps, "num_updates": num_updates, **self.latest}
        append_rows(self._run.metrics, list(row), [list(row.values())])
        self._sums, self._count = {}, 0
        self._write_timing(num_steps)
        self.plot(self.latest, num_steps)
        self._watch(num_steps)

    def _watch(self, num_steps: int) -> None:
        """Say once what is wrong, and stop if it stays so, unless the user wants to see it out."""
        config = self._config
        trouble = diagnostics.trouble(config.agent, self.latest)
        self.trouble, rows = trouble, self._troubled_rows + 1
        self._troubled_rows = rows if trouble else 0
        if not trouble:
            return
        if rows == 1:
            log.warning("visr: At step %s %s.", f"{num_steps:,}", trouble.evidence)
        if rows >= diagnostics.PATIENCE and config.training.on_trouble == "stop":
            raise UserError(
                f"Stopped at step {num_steps:,}: {trouble.evidence}, in {rows} rows of "
                f"metrics in a row; {trouble.advice}, or see it out with --on-trouble warn."
            )

    def write_online(self, num_steps: int, row: dict[str, float]) -> None:
        """How the rewarded environments fared, if any of their games has ended."""
        if row:
            self.latest_online = row
            row = {"num_steps": num_steps, **row}
            append_rows(self._run.online, list(row), [list(row.values())])
            self.plot({f"online/{k}": v for k, v in self.latest_online.items()}, num_steps)

    def write_vitals(self, num_steps: int, row: dict[str, float]) -> None:
        """How the cluster fared, if there is one; a clock is in it, so it has a file of its own."""
        if row:
            self.latest_vitals = row
            columns = ["num_steps", *row]
            append_rows(
                self._run.vitals, columns, [[num_steps, *(f"{v:.6g}" for v in row.values())]]
            )
            self.plot({f"cluster/{k}": v for k, v in row.items()}, num_steps)

    def _refuse_divergence(self, num_steps: int) -> None:
        lost = [name for name, value in self.latest.items() if not math.isfinite(value)]
        if lost:
            raise UserError(diagnostics.diverged(num_steps, lost[0], str(self.latest[lost[0]])))

    def _write_timing(self, num_steps: int) -> None:
        now, (then, before) = time.perf_counter(), self._since
        self._since = (now, num_steps)
        if before >= 0:
            rate = (num_steps - before) / (now - then)
            columns = ["num_steps", "seconds", "steps_per_second"]
            append_rows(
                self._run.timing, columns, [[num_steps, f"{now - then:.3f}", f"{rate:.0f}"]]
            )

    def plot(self, values: dict[str, float], num_steps: int) -> None:
        """Hand values to TensorBoard."""
        if self._board is not None and not self._run.tensorboard.exists():  # somebody cleared up
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
        """Let TensorBoard finish its file."""
        if self._board is not None:
            with writing(self._run.tensorboard):
                self._board.close()
            self._board = None

    def state(self) -> dict[str, Tensor]:
        """The sums of a row that is not yet full."""
        sums = {f"sum.{k}": torch.tensor(v, dtype=torch.float64) for k, v in self._sums.items()}
        troubled = torch.tensor(self._troubled_rows)
        return {"count": torch.tensor(self._count), "troubled_rows": troubled, **sums}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`; the checkpoint of a new run has none."""
        self.close()
        self._since = (time.perf_counter(), -1)
        self._count = int(tensors.get("count", 0))
        self._troubled_rows = int(tensors.get("troubled_rows", 0))
        self._sums = {k: float(v) for k, v in within(tensors, "sum.").items()}
