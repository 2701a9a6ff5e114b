"""Estimates: from the ledger where it knows, and honest where nothing does."""

from __future__ import annotations

from pathlib import Path

import pytest

from visr.paper.reproduce import estimate, jobs, plan
from visr.paper.reproduce.ledger import Ledger

PLAN = plan.make(
    "minatar", only=["visr", "nsq-1k"], chosen_games=["breakout"], seeds=[0, 1], num_steps=4_000
)


def test_what_the_ledger_has_seen_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger = Ledger(tmp_path)
    ledger.adopt(PLAN)
    for job in PLAN.jobs:
        if job.seed == 0 and job.phase == "train":
            ledger.change(job, state="done", seconds=2.0)  # visr: 2,000 steps/s; nsq: 500
    monkeypatch.setattr(estimate, "_measured", lambda job: pytest.fail("it was measured"))
    guess = estimate.estimate(PLAN, ledger)
    # visr: one training of 4,000 and two phases of 100,000 rewarded steps; nsq: one training of 1,000
    assert guess.seconds == {"visr": pytest.approx(204_000 / 2_000), "nsq-1k": pytest.approx(2.0)}
    assert guess.total(2) == pytest.approx((102 + 2) / 2)
    assert set(guess.sources.values()) == {"recorded"}


def test_an_agent_that_was_not_measured_is_taken_to_be_like_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    speeds = {"visr": 1_000.0}
    monkeypatch.setattr(estimate, "_measured", lambda job: speeds.get(job.agent))
    guess = estimate.estimate(PLAN, Ledger(tmp_path))
    assert guess.seconds["nsq-1k"] == pytest.approx(2 * 1_000 / 1_000)
    assert guess.sources["nsq-1k"] == "taken from the others"


def test_what_could_not_be_measured_in_time_is_taken_from_its_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    beyond = plan.make(
        "beyond", only=["visr", "visr-rnd", "visr-plus", "dqn-1k"], chosen_games=["breakout"],
        seeds=[0], num_steps=4_000,
    )  # fmt: skip
    asked: list[tuple[str, str]] = []

    def measured(job: plan.Job) -> float | None:
        asked.append((job.agent, job.phase))
        return {"train": 1_000.0, "adapt": 100.0}[job.phase] if len(asked) <= 3 else None

    monkeypatch.setattr(estimate, "_measured", measured)
    guess = estimate.estimate(beyond, Ledger(tmp_path))
    assert asked[:3] == [("visr", "train"), ("visr", "adapt"), ("dqn-1k", "train")]
    # 4,000 steps, 100,000 to infer with, and four ways to adapt, or one
    assert guess.seconds["visr"] == pytest.approx(104 + 4_000)
    assert guess.seconds["visr-rnd"] == pytest.approx(104)
    assert guess.seconds["visr-plus"] == pytest.approx(104 + 1_000)
    assert guess.sources["visr-rnd"] == "taken from the others"


@pytest.mark.parametrize(
    ("agent", "phase"), [("dqn-1m", "train"), ("ppo-1m", "train"), ("visr-plus", "adapt")]
)
def test_what_has_a_speed_of_its_own_is_measured_at_work(agent: str, phase: str):
    beyond = plan.make("beyond", only=[agent], chosen_games=["breakout"], seeds=[0])
    (job,) = (job for job in beyond.jobs if job.phase == phase)
    assert 10 < jobs.probe(job.config, job.ways, job.counts) < 10**6


def test_more_free_steps_take_longer():
    def speed(free_steps: int) -> float:
        counts = plan.Counts(rewarded_episodes=0, free_steps=free_steps)
        made = plan.make("beyond", only=["visr-plus"], chosen_games=["breakout"], counts=counts)
        job = next(job for job in made.jobs if job.phase == "adapt")
        return jobs.probe(job.config, job.ways, job.counts)

    assert speed(5_000_000) < speed(100_000) / 2


def test_where_nothing_is_known_no_time_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(estimate, "_measured", lambda job: None)
    guess = estimate.estimate(PLAN, Ledger(tmp_path))
    assert guess.total(1) is None


def test_a_plan_that_is_done_takes_no_time(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.adopt(PLAN)
    for job in PLAN.jobs:
        ledger.change(job, state="done", seconds=1.0)
    assert estimate.estimate(PLAN, ledger).total(1) == 0
