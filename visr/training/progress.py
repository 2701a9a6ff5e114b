"""Progress of a long job: what a display shows, and requests to stop."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType


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


Observer = Callable[[Status], None]


class Stopped(Exception):
    """Training was asked to stop, and stopped cleanly."""

    def __init__(self, signal_number: int, saved_steps: int, resume_command: str) -> None:
        super().__init__(
            f"Stopped; the run is saved as of step {saved_steps:,}. Go on with `{resume_command}`."
        )
        self.signal_number = signal_number


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

    previous = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requests
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
