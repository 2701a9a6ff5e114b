"""Supervise one remote worker; restart it when it dies, fails or hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RayTaskError

from visr import terminal
from visr.errors import UserError

log = terminal.logger("visr.cluster")

_REMIND_EVERY = 30.0
"""Seconds between log lines while workers are missing."""
_MAX_FAILURES = 3
"""Consecutive failures without a result before the run gives up."""


def remote_class(worker: type) -> Any:
    """A class as a Ray actor; its calls are not recorded by Ray's head, which millions of them would fill."""
    return ray.remote(enable_task_events=False)(worker)  # pyright: ignore[reportCallIssue]


class Supervisor:
    """Starts a worker, sends it one request at a time, and replaces it on failure or time-out.

    `spawn(n)` starts the n-th worker, a Ray actor with `process_id()` and `prepare()`. Waiting for a free
    place in the cluster has no time limit, as nodes may be added; everything after that has.
    """

    def __init__(self, name: str, spawn: Callable[[int], Any], timeout: float) -> None:
        self.name, self._spawn, self._timeout = name, spawn, timeout
        self.generation = 0
        """How often the worker was replaced."""
        self.handle: Any = None
        self.pending: Any = None
        """The reference that is awaited; None while the worker is free."""
        self.pid = 0
        self.request: Any = None
        """What the caller attached to the pending request."""
        self._phase, self._since, self._failures = "starting", 0.0, 0
        self._start()

    @property
    def is_ready(self) -> bool:
        """Whether the worker is prepared."""
        return self._phase == "ready"

    @property
    def is_free(self) -> bool:
        """Whether the worker is prepared and has no pending request."""
        return self.is_ready and self.pending is None

    @property
    def is_busy(self) -> bool:
        """Whether the worker is prepared and has a pending request."""
        return self.is_ready and self.pending is not None

    def await_result(self, pending: Any, request: Any = None) -> None:
        """Note the reference of a request that was sent, and what to attach to it."""
        self.pending, self.request, self._since = pending, request, time.monotonic()

    def receive(self, ready: set[Any]) -> Any:
        """The pending result if it is ready; None otherwise, or if it was part of the start or failed."""
        if self.pending not in ready:
            self._check_timeout()
            return None
        try:
            result: Any = ray.get(self.pending)
        except (RayActorError, RayTaskError, ObjectLostError) as error:
            if is_lost_object(error):  # the weights, with their node: not the worker's fault
                self.pending = None
            else:
                self._replace(reason(error))
            return None
        self.pending = None
        if self._phase == "starting":
            self.pid, self._phase = result, "preparing"
            self.await_result(self.handle.prepare.remote())
            return None
        if self._phase == "preparing":
            self._phase = "ready"
            return None
        self._failures = 0
        return result

    def _check_timeout(self) -> None:
        """Replace a worker whose result is overdue."""
        waits = self.pending is not None and self._phase != "starting"
        if waits and time.monotonic() - self._since > self._timeout:
            self._replace(f"nothing came back within {self._timeout:g} seconds")

    def call(self, request: Callable[[Any], Any]) -> Any:
        """Send a request and wait for its result; None if the worker fails instead."""
        try:
            return ray.get(request(self.handle), timeout=self._timeout)
        except (RayActorError, RayTaskError, GetTimeoutError) as error:
            self._replace(reason(error))
            return None

    def stop(self) -> None:
        """Kill the worker."""
        if self.handle is not None:
            ray.kill(self.handle)
        self.handle = self.pending = None

    def _start(self) -> None:
        self.handle = self._spawn(self.generation)
        self._phase, self.pid, self.request = "starting", 0, None
        self.pending = self.handle.process_id.remote()

    def _replace(self, why: str) -> None:
        self._failures += 1
        if self._failures >= _MAX_FAILURES:
            raise UserError(
                f"{self.name} failed {self._failures} times in a row without finishing anything ({why}); "
                "see whether the environment works there with `visr doctor`, or raise --unroll-timeout."
            )
        log.warning("%s is replaced: %s.", self.name, why)
        self.stop()
        self.generation += 1
        self._start()


def is_lost_object(error: Exception) -> bool:
    """Whether an object was lost with its node before it could be read."""
    return any(isinstance(e, ObjectLostError) for e in (error, getattr(error, "cause", None)))


def reason(error: Exception) -> str:
    """Why a worker failed, in one line; a UserError inside is raised instead."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, UserError):
        raise cause from None
    if isinstance(error, RayTaskError):
        return " ".join(f"{type(cause).__name__}: {cause}".split())[:300]
    if isinstance(error, GetTimeoutError):
        return "no answer in time"
    return "its process or its node has gone"


def wait_for(missing: Callable[[], str]) -> None:
    """Call `missing` until it returns an empty text; log the text from time to time."""
    reminded = time.monotonic()
    while text := missing():
        if time.monotonic() - reminded > _REMIND_EVERY:
            reminded = time.monotonic()
            log.warning("Waiting for %s; `ray status` shows what is free.", text)


def wait_for_any(pending: list[Any], seconds: float) -> set[Any]:
    """The references that are ready, as soon as one is or the time is up; nothing is fetched."""
    if not pending:
        time.sleep(min(seconds, 0.05))
        return set()
    first, _ = ray.wait(pending, num_returns=1, timeout=seconds, fetch_local=False)
    if not first:
        return set()
    ready, _ = ray.wait(pending, num_returns=len(pending), timeout=0, fetch_local=False)
    return {*first, *ready}
