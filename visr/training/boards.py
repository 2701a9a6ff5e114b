"""Where metrics are plotted during training: TensorBoard's files and, if asked, Weights & Biases."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from visr.config import RunConfig, to_dict
from visr.errors import UserError, needing
from visr.storage.files import read_json, write_json, writing
from visr.storage.run_dir import RunDir

_PROJECT = "visr"
"""The project of the runs, unless WANDB_PROJECT names another."""


class TensorBoard:
    """Writes the files that `tensorboard --logdir RUN` shows."""

    def __init__(self, run: RunDir) -> None:
        self._place, self._writer = run.tensorboard, None

    def plot(self, values: Mapping[str, float], num_steps: int) -> None:
        """Add values at that step."""
        if self._writer is not None and not self._place.exists():  # a user deleted it
            with contextlib.suppress(OSError):
                self._writer.close()
            self._writer = None
        if self._writer is None:
            from torch.utils.tensorboard.writer import SummaryWriter

            with writing(self._place):
                self._writer = SummaryWriter(str(self._place), purge_step=num_steps)
        with writing(self._place):
            for name, value in values.items():
                self._writer.add_scalar(name, value, num_steps)

    def close(self) -> None:
        """Close the file; the next value starts another one."""
        if self._writer is not None:
            with writing(self._place):
                self._writer.close()
            self._writer = None


class WeightsAndBiases:
    """Logs the same values to one run of wandb; a resumed run continues it."""

    def __init__(self, run: RunDir, config: RunConfig) -> None:
        wandb = require_wandb()
        with _wandb_errors(wandb):
            self._log = wandb.init(
                project=os.environ.get("WANDB_PROJECT", _PROJECT),
                name=run.path.name,
                id=_id(run),
                resume="allow",
                dir=run.path,
                config=to_dict(config),
                settings=wandb.Settings(console="off"),  # it would take over stdout and stderr
            )

    def plot(self, values: Mapping[str, float], num_steps: int) -> None:
        """Add values at that step; wandb ignores steps that it has already."""
        self._log.log(dict(values), step=num_steps)

    def close(self) -> None:
        """Send what is left, and end the run of wandb."""
        self._log.finish()


def require_wandb() -> Any:
    """Import wandb and log in; a UserError if it is not installed or not logged in."""
    with needing("wandb", "wandb", "--wandb"):
        import wandb
    if os.environ.get("WANDB_MODE", "online") == "online":
        with _wandb_errors(wandb):
            wandb.login()
    return wandb


@contextlib.contextmanager
def _wandb_errors(wandb: Any) -> Iterator[None]:
    try:
        yield
    except wandb.errors.Error as error:
        raise UserError(
            f"wandb refused ({error}); run `wandb login`, or set WANDB_MODE=offline to log to files only."
        ) from None


def _id(run: RunDir) -> str:
    """The id of the run's run of wandb, drawn once."""
    if not run.wandb_id.exists():
        write_json(run.wandb_id, {"id": secrets.token_hex(8)})
    content = read_json(run.wandb_id)
    known = content.get("id") if isinstance(content, dict) else None
    if not isinstance(known, str) or not re.fullmatch("[a-z0-9]{1,64}", known):
        raise UserError(f"{run.wandb_id} holds no id of wandb; remove it to start a new log there.")
    return known
