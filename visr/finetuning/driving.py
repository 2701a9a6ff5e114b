"""The rounds of a fine-tuning: rows, checkpoints, requests to stop, and what a stopped one left behind."""

from __future__ import annotations

import safetensors.torch
import torch
from torch import Tensor

from visr.config import FinetuneConfig
from visr.errors import UserError
from visr.finetuning.q_learner import FineTuner
from visr.storage.files import write_tensors, writing
from visr.storage.records.finetuning import REMEDY
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows
from visr.training import checkpoint
from visr.training.learner import within
from visr.training.progress import Observer, Status, Stopped

_LOG_EVERY = 2_000
_COLUMNS = ("loss", "reward", "return")
_FORESEEN = "foreseen"
"""The share of new rewards' variance that the reward's model foresaw."""
_REPORTS = "reports."
Reports = dict[str, list[float]]
"""Of the rounds since the last row of metrics.csv, by column."""


def rounds(
    run: RunDir,
    settings: FinetuneConfig,
    tuner: FineTuner,
    observe: Observer | None,
    stop: list[int],
    reports: Reports,
) -> None:
    """Act and learn to the end; `reports` are what is not yet a row."""
    columns = [*_COLUMNS, _FORESEEN] if settings.free_steps else list(_COLUMNS)
    while not tuner.is_done:
        then = tuner.num_steps
        for name, value in tuner.round().items():
            reports.setdefault(name, []).append(value)
        now = tuner.num_steps
        if observe and tuner.doing:
            observe(Status(now, settings.num_steps, {}, {}, note=tuner.doing))
        is_due = now // settings.checkpoint_every > then // settings.checkpoint_every
        # A row is written at every checkpoint, so that a resumed run averages over the same rounds.
        is_end = now > then and now >= settings.num_steps
        if is_due or is_end or now // _LOG_EVERY > then // _LOG_EVERY:
            row = {name: sum(values) / len(values) for name, values in reports.items()}
            append_rows(
                run.metrics,
                ["num_steps", *columns],
                [[now, *(row.get(c, "nan") for c in columns)]],
            )
            reports = {}
            if observe:
                observe(
                    Status(now, settings.num_steps, {}, {"mean_return": row.get("return", 0.0)})
                )
        if is_due or tuner.is_done:
            tuner.reset_unsaveable_envs()
            save(run, tuner)
        if stop and not tuner.is_done:
            raise _stopped(run, tuner, stop[0], reports)


def _stopped(run: RunDir, tuner: FineTuner, signal_number: int, reports: Reports) -> Stopped:
    """Keep all work where the environments permit it; else, and where none is done, what stands stands."""
    if tuner.actor.can_checkpoint_envs and tuner.num_steps:
        save(run, tuner, reports)
    return stopped_at(run, signal_number)


def stopped_at(run: RunDir, signal_number: int) -> Stopped:
    """What to say of a run as it lies there."""
    saved = int(checkpoint.newest(run).stem)
    return Stopped(signal_number, saved, f"visr finetune --resume {run.path}")


def save(run: RunDir, tuner: FineTuner, reports: Reports | None = None) -> None:
    """The replay's new piece, then the checkpoint, which must find all that came before it."""
    if piece := tuner.replay.take_new():
        write_tensors(run.replay_piece(tuner.num_steps), safetensors.torch.save(piece))
    tensors, counts = tuner.state()
    for name, values in (reports or {}).items():
        tensors[f"{_REPORTS}{name}"] = torch.tensor(values, dtype=torch.float64)
    checkpoint.save(run, tensors, counts, num_steps=tuner.num_steps)
    run.remove_old_replay(tuner.settings.replay_steps)


def reports_in(tensors: dict[str, Tensor]) -> Reports:
    """What was not yet written when it was stopped."""
    found = within(tensors, _REPORTS)
    for name, values in found.items():
        if name not in (*_COLUMNS, _FORESEEN):
            raise ValueError(f"there is no report {name}")
        if values.ndim != 1 or not len(values) or values.dtype != torch.float64:
            raise ValueError(f"its report {name} is no list of numbers")
    return {name: values.tolist() for name, values in found.items()}


def restore_replay(run: RunDir, tuner: FineTuner) -> None:
    """Everything that was met up to the checkpoint; less of it would quietly end elsewhere."""
    newer = [piece for piece in run.replay_pieces() if int(piece.stem) > tuner.num_steps]
    for path in run.replay_pieces():
        if path in newer:
            continue
        piece = checkpoint.load_tensors(path, REMEDY)
        try:
            tuner.remember(piece)
        except (IndexError, TypeError, ValueError) as error:
            raise UserError(f"{path} does not fit its run ({error}); {REMEDY}.") from None
    if tuner.num_forgotten:
        raise UserError(
            f"{run.replay} does not hold what was met before step {tuner.num_steps:,} (unrolls missing: "
            f"{tuner.num_forgotten}); {REMEDY}."
        )
    for path in newer:
        with writing(path):
            path.unlink()
