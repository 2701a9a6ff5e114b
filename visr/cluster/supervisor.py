"""A seat: one place in the cluster, and whoever sits there. Who dies, fails or hangs is replaced."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RayTaskError

from visr.errors import UserError

log = logging.getLogger("visr.cluster")

_MOST_FAILURES = 3
"""In a row, without anything achieved: then it is not bad luck."""


def hosted(host: type) -> Any:
    """A class as a Ray actor whose calls leave no record with Ray's head: millions of them would fill it."""
    return ray.remote(enable_task_events=False)(host)  # pyright: ignore[reportCallIssue]


class Seat:
    """Starts its occupant, gives it one order at a time, and notices when nothing comes back.

    `spawn` makes the n-th occupant, a Ray actor with `hello()` and `prepare()`. Waiting for a place in the
    cluster has no limit, as nodes may be added; everything after `hello` has.
    """

    def __init__(self, name: str, spawn: Callable[[int], Any], timeout: float) -> None:
        self.name, self._spawn, self._timeout = name, spawn, timeout
        self.generation = 0
        self.handle: Any = None
        self.pending: Any = None
        """What is awaited: a reference, or None while the occupant is free."""
        self.pid = 0
        self.order: Any = None
        """What the caller wants to remember of the order that is being carried out."""
        self._stage, self._since, self._failures = "starting", 0.0, 0
        self.answer: Any = None
        """What `prepare` said."""
        self._sit()

    @property
    def is_ready(self) -> bool:
        """Whether somebody sits here who can take orders or carries one out."""
        return self._stage == "ready"

    @property
    def is_free(self) -> bool:
        """Whether an order could be given now."""
        return self.is_ready and self.pending is None

    def give(self, pending: Any, order: Any) -> None:
        """Note an order that was given: the reference to await, and what to remember."""
        self.pending, self.order, self._since = pending, order, time.monotonic()

    def attend(self) -> Any:
        """Fetch what is awaited, now that it is there: an order's result, else None."""
        try:
            result: Any = ray.get(self.pending)
        except (RayActorError, RayTaskError, ObjectLostError) as error:
            if is_loss(error):  # of the weights it should have acted with: no fault of its own
                self.pending = None
            else:
                self._replace(reason(error))
            return None
        self.pending = None
        if self._stage == "starting":
            self.pid, self._stage = result, "preparing"
            self.give(self.handle.prepare.remote(), None)
            return None
        if self._stage == "preparing":
            self.answer, self._stage = result, "ready"
            return None
        self._failures = 0
        return result

    def watch(self) -> None:
        """Replace an occupant that takes too long."""
        waits = self.pending is not None and self._stage != "starting"
        if waits and time.monotonic() - self._since > self._timeout:
            self._replace(f"nothing came back within {self._timeout:g} seconds")

    def ask(self, call: Callable[[Any], Any]) -> Any:
        """An order whose answer is waited for here; None if the occupant fails instead."""
        try:
            return ray.get(call(self.handle), timeout=self._timeout)
        except (RayActorError, RayTaskError, GetTimeoutError) as error:
            self._replace(reason(error))
            return None

    def leave(self) -> None:
        """Let the occupant go."""
        if self.handle is not None:
            ray.kill(self.handle)
        self.handle = self.pending = None

    def _sit(self) -> None:
        self.handle = self._spawn(self.generation)
        self._stage, self.pid, self.order = "starting", 0, None
        self.pending = self.handle.hello.remote()

    def _replace(self, why: str) -> None:
        """SIGKILL, if need be, and a new occupant."""
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            raise UserError(
                f"{self.name} failed {self._failures} times in a row without finishing anything ({why}); "
                "see whether the environment works there with `visr doctor`, or raise --unroll-timeout."
            )
        log.warning("%s is replaced: %s.", self.name, why)
        self.leave()
        self.generation += 1
        self._sit()


def is_loss(error: Exception) -> bool:
    """Whether an object has gone with its node before it could be read."""
    return isinstance(error, ObjectLostError) or isinstance(
        getattr(error, "cause", None), ObjectLostError
    )


def reason(error: Exception) -> str:
    """The first line that says why; what is meant for the user's eyes is raised instead."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, UserError):
        raise cause from None
    if isinstance(error, RayTaskError):
        return " ".join(f"{type(cause).__name__}: {cause}".split())[:300]
    if isinstance(error, GetTimeoutError):
        return "no answer in time"
    return "its process or its node has gone"


def wait_for_any(pending: list[Any], seconds: float) -> set[Any]:
    """Those that are there, as soon as one is or the time is up; nothing is fetched."""
    if not pending:
        time.sleep(min(seconds, 0.05))
        return set()
    first, _ = ray.wait(pending, num_returns=1, timeout=seconds, fetch_local=False)
    if not first:
        return set()
    ready, _ = ray.wait(pending, num_returns=len(pending), timeout=0, fetch_local=False)
    return {*first, *ready}
