"""Where metrics are plotted during training: TensorBoard's files and, if asked, Weights & Biases."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

from visr import working_directory
from visr.config import RunConfig, to_dict
from visr.errors import UserError
from visr.optional_packages import needing
from visr.storage import new_files
from visr.storage.files import read_json, write_json, writing
from visr.storage.run_dir import RunDir

_PROJECT = "visr"
"""The project of the runs, unless WANDB_PROJECT names another."""


class TensorBoard:
    """Writes the files that `tensorboard --logdir RUN` shows; each is a new file."""

    def __init__(self, run: RunDir) -> None:
        self._place = run.tensorboard
        self._file: IO[bytes] | None = None

    def plot(self, values: Mapping[str, float], num_steps: int) -> None:
        """Add values at that step."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # pyright: ignore
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore

        if self._file is not None and not self._place.exists():  # a user deleted it
            self.close()
        with writing(self._place):
            if self._file is None:
                start = SessionLog(status=SessionLog.START)  # values of later steps do not count
                first = (
                    Event(file_version="brain.Event:2"),
                    Event(session_log=start, step=num_steps),
                )
                self._file = open(new_files.create(self._place / _event_file()), "wb")  # noqa: SIM115
                self._write(*first)
            shown = [Summary.Value(tag=k, simple_value=float(v)) for k, v in values.items()]
            self._write(*(Event(summary=Summary(value=[v]), step=num_steps) for v in shown))

    def _write(self, *events: Any) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        records = RecordWriter(self._file)
        for event in events:
            event.wall_time = time.time()
            records.write(event.SerializeToString())
        records.flush()

    def close(self) -> None:
        """Close the file; the next value starts another one."""
        if self._file is not None:
            closed, self._file = self._file, None
            with writing(self._place):
                closed.close()


def _event_file() -> str:
    """A name that is not used yet, in TensorBoard's form."""
    start = f"events.out.tfevents.{int(time.time()):010d}"
    return f"{start}.{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"


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
                # it would take over stdout and stderr, and run git in the working directory
                settings=wandb.Settings(console="off", disable_git=True),
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
    with working_directory.elsewhere(), _wandb_errors(wandb):
        wandb.setup()
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
