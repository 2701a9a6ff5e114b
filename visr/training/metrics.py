"""Rows of a training run (metrics, timing, online evaluation, cluster), and problems that they reveal."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import SupportsFloat

import torch
from torch import Tensor

from visr import terminal
from visr.config.fields import AgentConfig
from visr.errors import UserError
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows
from visr.training.checkpoint import diverged
from visr.training.driver import Status
from visr.training.learner import within
from visr.training.metric_loggers import TensorBoard, WeightsAndBiases

log = terminal.logger()

_STATE = "recorder."

PATIENCE = 10
"""Consecutive rows of metrics that must show a problem; the first rows of a healthy run may show it, too."""

COLLAPSED = 0.999
"""Length of phi's mean. The part of phi that differs between states then has length 0.045 (root mean
square), and so has the standard deviation of log q. Healthy runs started at 0.80 or less and later stayed
below 0.35; a collapsed one was at 0.99999."""

DEAD = 1e-5
"""psi's deviation over the states of an unroll, as a share of its size. If all units are dead, only rounding
is left, below 1e-6."""


class MetricsWriter:
    """Averages the metrics of all updates between two rows, and writes the rows."""

    def __init__(self, run: RunDir, wandb: bool = False) -> None:
        self._run, self._sums, self._count = run, {}, 0
        self._config = run.config()  # read now: a user may delete the file during training
        self._latest: dict[str, dict[str, float]] = {"metrics": {}, "online": {}, "cluster": {}}
        self._tensorboard = TensorBoard(run)
        self._wandb = WeightsAndBiases(run, self._config) if wandb else None
        self._since = (time.perf_counter(), -1)
        self._trouble: Trouble | None = None
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
        for name, path in (("cluster", self._run.cluster_stats), ("online", self._run.online)):
            if row := extra_rows.get(name):
                self._latest[name] = row
                values = [f"{v:.6g}" for v in row.values()] if name == "cluster" else row.values()
                append_rows(path, ["num_steps", *row], [[num_steps, *values]])
                self.plot({f"{name}/{k}": v for k, v in row.items()}, num_steps)

    def _write_metrics(self, num_steps: int, num_updates: int) -> None:
        means = {name: self._sums[name] / self._count for name in sorted(self._sums)}
        self._latest["metrics"] = means
        for name, value in means.items():
            if not math.isfinite(value):
                raise UserError(diverged(num_steps, name, str(value)))
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
        trouble = self._trouble = find_trouble(self._config.agent, self._latest["metrics"])
        self._troubled_rows = self._troubled_rows + 1 if trouble else 0
        if not trouble:
            return
        if self._troubled_rows == 1:
            log.warning("visr: At step %s %s.", f"{num_steps:,}", trouble.evidence)
        if self._troubled_rows >= PATIENCE and self._config.training.on_trouble == "stop":
            raise UserError(
                f"Stopped at step {num_steps:,}: {trouble.evidence}, in {self._troubled_rows} rows of "
                f"metrics in a row; {trouble.advice}, or see it out with --on-trouble warn."
            )

    def status(
        self, num_steps: int, total_steps: int, evaluation: dict[str, float], note: str
    ) -> Status:
        metrics, online, cluster = (self._latest[k] for k in ("metrics", "online", "cluster"))
        trouble = self._trouble.name if self._trouble else ""
        shown = {**evaluation, **online}
        return Status(num_steps, total_steps, metrics, shown, cluster, trouble, note)

    def plot(self, values: dict[str, float], num_steps: int) -> None:
        """Add values to TensorBoard and to wandb."""
        self._tensorboard.plot(values, num_steps)
        if self._wandb is not None:
            self._wandb.plot(values, num_steps)

    def close(self) -> None:
        """Close TensorBoard's file and the log of wandb."""
        self._tensorboard.close()
        if self._wandb is not None:
            self._wandb.close()

    def state(self) -> dict[str, Tensor]:
        """The sums of the row that is not yet written."""
        sums = {f"sum.{k}": torch.tensor(v, dtype=torch.float64) for k, v in self._sums.items()}
        sums["count"] = torch.tensor(self._count)
        sums["troubled_rows"] = torch.tensor(self._troubled_rows)
        return {f"{_STATE}{k}": v for k, v in sums.items()}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`; the first checkpoint of a run holds no sums."""
        self._tensorboard.close()
        self._since = (time.perf_counter(), -1)
        mine = within(tensors, _STATE)
        self._count = int(mine.get("count", 0))
        self._troubled_rows = int(mine.get("troubled_rows", 0))
        self._sums = {k: float(v) for k, v in within(mine, "sum.").items()}


@dataclass(frozen=True)
class Trouble:
    """A problem that more training will not solve."""

    name: str
    """For the progress display."""
    evidence: str
    advice: str


def find_trouble(config: AgentConfig, metrics: Mapping[str, float]) -> Trouble | None:
    """The problem that one row of metrics shows, if any."""
    concentration = metrics.get("feature_concentration", 0.0)
    if _learns_unit_features(config) and concentration > COLLAPSED:
        return Trouble(
            "phi has collapsed",
            f"phi is nearly the same in all states (the length of its mean is {concentration:.5f})",
            "start again with --centred-features or a lower --phi-learning-rate",
        )
    if config.algorithm != "uniform" and metrics.get("psi_spread", 1.0) < DEAD:
        return Trouble(
            "psi is dead",
            f"psi is the same in all states (it varies by {metrics['psi_spread']:.0e} of its size)",
            "start again with a lower --psi-learning-rate or other --hidden-sizes",
        )
    largest = largest_error(config)
    if metrics.get("psi_loss", 0.0) > largest:
        return Trouble(
            "psi explodes",
            f"psi_loss is {metrics['psi_loss']:.3g}, though no sum of cumulants of length 1 or less can be "
            f"wrong by more than {largest:.3g}",
            "start again with a lower --psi-learning-rate or a longer --target-period",
        )
    return None


def largest_error(config: AgentConfig) -> float:
    """(2 / (1 - gamma))^2: a discounted sum of cumulants of length 1 has at most length 1 / (1 - gamma), so
    two of them differ by at most twice that; infinite where cumulants are not bounded.
    """
    is_bounded = config.algorithm in ("nsq", "pos-nsq") or _learns_unit_features(config)
    if not is_bounded or config.bonus != "none":
        return math.inf
    return (1 + config.value_weight) * (2 / (1 - config.gamma)) ** 2


def _learns_unit_features(config: AgentConfig) -> bool:
    """Whether the cumulant is a learned phi of unit length."""
    is_learned = config.algorithm == "visr" and config.features == "learned"
    return is_learned and config.objective == "visr"
