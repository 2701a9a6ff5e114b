"""The files of a run, without its agent: settings, saved tasks, learning curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from visr.storage.packed_models import PackedModel
from visr.storage.records.task import SavedTasks
from visr.storage.run_dir import RunDir
from visr.storage.summaries import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RunFiles(Summary):
    """What a run keeps on disk, or a packed model and the directory of its output."""

    def __init__(self, run_dir: RunDir, model: PackedModel | None = None) -> None:
        self.directory, self.model = run_dir, model
        self.config = run_dir.config() if model is None else model.card.config

    @property
    def path(self) -> Path:
        """The directory of the run; for a packed model, the directory of its output."""
        return self.directory.path

    @property
    def tasks(self) -> SavedTasks:
        """The tasks that the run keeps: run.tasks["left"]."""
        return SavedTasks(self.directory)

    @property
    def address(self) -> str:
        """The name for `visr.load` and for the command line."""
        return str(self.path) if self.model is None else self.model.address

    def plot(self) -> Figure:
        """The run's main learning curves as a matplotlib figure."""
        from visr.report import curves, read, style

        data = read.run_data(self.path)
        with style.figure_style():
            has_values = bool(data.evaluation)
            figure = (
                curves.optimal(data.evaluation) if has_values else curves.training(data.metrics)
            )
        figure._repr_png_ = lambda: style.png(figure)  # pyright: ignore  # notebooks show it
        return figure
