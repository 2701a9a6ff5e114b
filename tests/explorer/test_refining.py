"""Refinement in the background of the explorer: it improves, it is cancelled, it says what is wrong."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from visr import config as configuration
from visr import pretraining
from visr.config import presets
from visr.explorer import app
from visr.explorer.messages import RequestFields
from visr.explorer.state import ExplorerState
from visr.finetuning.tabular_q import TableLearner

CONFIG = configuration.replace(
    presets.get("replay-grid"),
    height=5,
    width=5,
    num_steps=8_192,
    warmup_steps=1_024,
    num_envs=8,
    unroll_length=16,
    num_updates=24,
    checkpoint_every=4_096,
    evaluate_every=8_192,
)


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> ExplorerState:
    path = tmp_path_factory.mktemp("refining") / "run"
    return ExplorerState(pretraining.start(path, CONFIG).path)


def paint(explored: ExplorerState, cell: int) -> dict[str, Any]:
    reward = np.zeros(25)
    reward[cell] = 1
    return app._paint(explored, RequestFields({"reward": reward.tolist()}))


def refined(explored: ExplorerState, id: str) -> dict[str, Any]:
    return app._refined(explored, RequestFields({"id": id}))


def wait(explored: ExplorerState, id: str) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while (found := refined(explored, id))["is_running"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def test_a_painted_task_becomes_optimal(explored: ExplorerState):
    instant = paint(explored, 7)
    id = instant["task"]["id"]
    app._refine(explored, RequestFields({"id": id}))
    found = wait(explored, id)
    assert found["error"] == ""
    assert found["answer"]["fraction_of_optimal"] == pytest.approx(1, abs=1e-6)
    assert "run.refine" in found["answer"]["task"]["python"]["false"]
    name = explored.requests.save(found["answer"]["task"]["id"], "refined-in-the-page")
    saved = explored.run.evaluate_exactly(explored.run.tasks[name])
    assert saved.fraction_of_optimal == pytest.approx(1, abs=1e-6)


def test_the_next_stroke_cancels(explored: ExplorerState):
    first = paint(explored, 7)["task"]["id"]
    app._refine(explored, RequestFields({"id": first}))
    job = explored.refinement._job
    assert job is not None
    paint(explored, 8)
    assert job.cancelled.is_set()
    assert refined(explored, first)["answer"] is None
    deadline = time.monotonic() + 60
    while job.is_running:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cancelled_refinement_begins_no_other_slice(
    explored: ExplorerState, monkeypatch: pytest.MonkeyPatch
):
    begun, go_on, learn = threading.Event(), threading.Event(), TableLearner.learn
    counts: list[int] = []

    def slow(learner: TableLearner, count: int, rate: float) -> None:
        counts.append(count)
        begun.set()
        go_on.wait(60)
        learn(learner, count, rate)

    monkeypatch.setattr(TableLearner, "learn", slow)
    app._refine(explored, RequestFields({"id": paint(explored, 7)["task"]["id"]}))
    assert begun.wait(60)
    paint(explored, 8)  # answered while the other still works
    go_on.set()
    explored.refinement.wait()
    assert len(counts) == 1


def test_a_run_without_recorded_steps_says_so(run_path: Path):
    explored = ExplorerState(run_path)
    reward = np.zeros(100)
    reward[7] = 1
    answer = app._paint(explored, RequestFields({"reward": reward.tolist()}))
    fields = RequestFields({"id": answer["task"]["id"]})
    app._refine(explored, fields)
    found = app._refined(explored, fields)
    assert not found["is_running"]
    assert "no recorded steps" in found["error"]
