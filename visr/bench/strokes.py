"""How long the explorer takes from a painted reward to its picture."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import visr
from visr.bench.latency import GRID
from visr.bench.meter import compared, rate, take_turns, waits_for_a_core
from visr.explorer import painting
from visr.explorer.messages import RequestFields, encoded
from visr.explorer.serve import Server
from visr.explorer.state import BackgroundRefinement
from visr.explorer.task_requests import RequestedTask, TaskRequests
from visr.run import Run

_LONGEST_PAUSE = 0.2
"""Seconds between a stroke and the next one."""
_FEWEST = 20
"""Strokes over HTTP."""


def explorer(seconds: float) -> dict[str, Any]:
    """A painted reward to the numbers of its picture, against GPI in all states alone."""
    run = visr.load(f"pretrained:{GRID}")
    requests, rng = TaskRequests(run), np.random.default_rng(0)
    num_states = painting.world(run).num_states

    def answer() -> RequestedTask:
        reward = rng.random(num_states).round(2).tolist()
        fields = RequestFields.parse(encoded({"reward": reward}))
        requested = requests.infer(fields, "paint")
        encoded({"task": requested.to_dict(run), **painting.evaluate(run, requested.task, True)})
        return requested

    def stroke() -> int:
        answer()
        return 1

    agent, states = run.agent, torch.arange(num_states)
    w = torch.as_tensor(run.skill(0).w, dtype=torch.float32).expand(num_states, -1)
    policies, readout = agent.sample_policies(w, None), agent.readout(w)

    def passes() -> int:
        with torch.inference_mode():
            agent.action_values(agent.psi.first_step(states), policies, readout)
        return 1

    torch.set_num_threads(1)  # as the server does
    turns = take_turns({"strokes": stroke, "passes": passes}, seconds / 3)
    return {
        **compared(turns["strokes"], turns["passes"], "cpu", "strokes"),
        "milliseconds": 1000 / rate(turns["strokes"], "cpu"),
        **_over_http(num_states, seconds / 3),
        **_while_refining(run, answer, seconds / 3),
    }


def _over_http(num_states: int, seconds: float) -> dict[str, float]:
    """Strokes from the request to the last byte of the answer, by a server in a thread of this process.

    `idle` leaves out the waits for a core of the thread that waited longest; an idle machine has none.
    """
    server, rng = Server(f"pretrained:{GRID}", port=0), np.random.default_rng(2)
    serving = threading.Thread(target=server.run, daemon=True)
    serving.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {"x-visr-token": server.token, "content-type": "application/json"}
    times, idle, end = [], [], time.perf_counter() + seconds
    while len(times) < _FEWEST or time.perf_counter() < end:
        reward = rng.random(num_states).round(2).tolist()
        before, began = waits_for_a_core(), time.perf_counter()
        connection.request("POST", "/api/paint", encoded({"reward": reward}), headers)
        assert len(connection.getresponse().read()) > num_states
        times.append(time.perf_counter() - began)
        waits = waits_for_a_core()
        idle.append(times[-1] - max((waits[k] - before.get(k, 0) for k in waits), default=0))
    connection.close()
    server.stop()
    serving.join()
    first = 1  # opens the connection
    found = {"wall_milliseconds": times[first:], "idle_milliseconds": idle[first:]}
    return {f"{k}_95th_percentile": 1000 * float(np.quantile(v, 0.95)) for k, v in found.items()}


def _while_refining(
    run: Run, answer: Callable[[], RequestedTask], seconds: float
) -> dict[str, float]:
    """Strokes that each cancel the refinement of the one before: their answers, and until it has stopped."""
    assert len(run.offline_steps)  # recorded now, once
    background, rng = BackgroundRefinement(), np.random.default_rng(1)
    answers, stops = [], []
    end = time.perf_counter() + seconds
    while not answers or time.perf_counter() < end:
        background.start(run, answer())
        time.sleep(rng.uniform(0, _LONGEST_PAUSE))  # the user moves the pointer
        began = time.perf_counter()
        background.cancel()
        answer()
        answers.append(time.perf_counter() - began)
        background.start(run, answer())
        time.sleep(rng.uniform(0, _LONGEST_PAUSE))
        began = time.perf_counter()
        background.cancel()
        background.wait()
        stops.append(time.perf_counter() - began)
    return {
        "wall_milliseconds_while_refining_95th_percentile": 1000
        * float(np.quantile(answers, 0.95)),
        "wall_milliseconds_to_cancel_95th_percentile": 1000 * float(np.quantile(stops, 0.95)),
    }
