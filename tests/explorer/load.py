"""100 tabs paint on one explorer: python -m tests.explorer.load RUN [--tabs 100] [--seconds 120]

Each tab behaves like the page: it paints ten times a second, asks one question at a time, and asks for the
newest picture when the answer has come. Prints one JSON object; `lost` counts requests without a full answer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

PERIOD = 0.1
"""Seconds between strokes."""


def resident_megabytes(pid: int) -> float:
    """Memory of a process, from /proc."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if "VmRSS" in line)


class Tab(threading.Thread):
    """One page."""

    def __init__(self, server: dict[str, Any], seed: int, until: float) -> None:
        super().__init__(daemon=True)
        self._server, self._rng, self._until = server, random.Random(seed), until
        self.seconds: list[float] = []
        self.num_strokes, self.num_lost = 0, 0

    def run(self) -> None:
        """Paint until the end; strokes during a question are asked together."""
        connection = http.client.HTTPConnection("127.0.0.1", self._server["port"], timeout=300)
        due = time.monotonic() + self._rng.random() * PERIOD
        while (now := time.monotonic()) < self._until:
            if now < due:
                time.sleep(due - now)
            waiting = 1 + int(max(time.monotonic() - due, 0) / PERIOD)
            self.num_strokes, due = self.num_strokes + waiting, due + waiting * PERIOD
            self._ask(connection)
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection) -> None:
        reward = [float(self._rng.choice((-1, 0, 0, 1))) for _ in range(100)]
        headers = {"x-visr-token": self._server["token"]}
        start = time.monotonic()
        try:
            connection.request("POST", "/api/paint", json.dumps({"reward": reward}), headers)
            answer = connection.getresponse()
            is_full = len(json.loads(answer.read()).get("policy", ())) == 100
        except (OSError, http.client.HTTPException, ValueError):
            connection.close()
            is_full = False
        self.num_lost += not is_full
        self.seconds.append(time.monotonic() - start)


def measure(run: str, num_tabs: int, seconds: float) -> dict[str, Any]:
    """Serve the run in another process, and let tabs paint on it."""
    command = [sys.executable, "-m", "visr", "explore", run, "--json", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server = json.loads(process.stdout.readline())
        until = time.monotonic() + seconds
        tabs = [Tab(server, seed, until) for seed in range(num_tabs)]
        for tab in tabs:
            tab.start()
        memory = []
        while time.monotonic() < until:
            time.sleep(seconds / 20)
            memory.append(resident_megabytes(process.pid))
        for tab in tabs:
            tab.join(timeout=300)
        process.terminate()
    times = np.concatenate([tab.seconds for tab in tabs])
    return {
        "tabs": num_tabs,
        "seconds": seconds,
        "strokes": sum(tab.num_strokes for tab in tabs),
        "requests": len(times),
        "lost": sum(tab.num_lost for tab in tabs),
        "median_ms": round(float(np.median(times)) * 1000),
        "p95_ms": round(float(np.percentile(times, 95)) * 1000),
        "largest_ms": round(float(times.max()) * 1000),
        "megabytes_after_a_quarter": round(memory[len(memory) // 4]),
        "megabytes_at_the_end": round(memory[-1]),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--tabs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=120)
    given = parser.parse_args()
    print(json.dumps(measure(given.run, given.tabs, given.seconds), indent=2))


if __name__ == "__main__":
    main()
