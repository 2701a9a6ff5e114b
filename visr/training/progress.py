"""How long work is watched and stopped: what it reports, and who asked it to end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType


@dataclass(frozen=True)
class Status:
    """What a progress display may want to know."""

    num_steps: int
    total_steps: int
    metrics: dict[str, float]
    evaluation: dict[str, float]
    vitals: dict[str, float] = field(default_factory=dict)
    """Of the cluster, if there is one."""
    trouble: str = ""
    """What is wrong with the numbers, in a few words."""
    note: str = ""
    """What goes on instead of steps."""


Observer = Callable[[Status], None]


class Stopped(Exception):
    """Training was asked to stop, and did so cleanly."""

    def __init__(self, signal_number: int, saved_steps: int, go_on: str) -> None:
        super().__init__(
            f"Stopped; the run is saved as of step {saved_steps:,}. Go on with `{go_on}`."
        )
        self.signal_number = signal_number


@contextlib.contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Collects Ctrl-C and SIGTERM, so that a round can finish; a second Ctrl-C interrupts at once."""
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
