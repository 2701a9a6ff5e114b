"""From run directories to entries of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.paper.suite.made_up_runs import (
    ATARI,
    MINATAR,
    STEPS,
    adapted,
    condition,
    new_run,
    play,
    score_run,
)
from visr import config as configuration
from visr.config import RunConfig, presets
from visr.paper.suite import read
from visr.paper.suite.entries import Entry, collect
from visr.storage import schema
from visr.storage.files import write_json
from visr.storage.records.two_phase import Adapted, Condition
from visr.storage.run_dir import RunDir


def entries(root: Path) -> dict[str, Entry]:
    found, _ = collect(read.read(root)[0])
    return {entry.key.name: entry for entry in found}


def test_every_agent_of_a_plan_has_its_name_in_the_paper(tmp_path: Path):
    game = ATARI[0]
    play(new_run(tmp_path, "visr", game, 0), regression=4.0, search=3.0, unadapted=2.0)
    play(new_run(tmp_path, "visr-no-gpi", game, 0), regression=4.0, search=3.0, unadapted=2.0)
    play(new_run(tmp_path, "rf-visr", game, 0), regression=4.0, search=3.0, unadapted=2.0)
    play(new_run(tmp_path, "rf-visr-no-gpi", game, 0), search=3.0, unadapted=2.0)
    play(new_run(tmp_path, "diayn-50", game, 0), search=3.0, unadapted=2.0)
    play(new_run(tmp_path, "diayn-5-log-q", game, 0), search=3.0)
    trained = ("nsq-100k", "nsq-10m", "pos-nsq", "rf-curiosity", "dqn-10m", "ppo-500k")
    for agent in (*trained, "rainbow-10m", "der-100k"):
        play(new_run(tmp_path, agent, game, 0), trained=4.0)
    play(new_run(tmp_path, "uniform", game, 0), random=1.0)
    pre_trained = {
        *("GPI VISR @100k", "GPI VISR by search @100k", "VISR @100k", "VISR by search @100k"),
        *("GPI RF VISR @100k", "GPI RF VISR by search @100k"),
        "RF VISR @100k",  # no reward was seen: search is its only score
        *("Q-DIAYN-5 (log q) @100k", "Q-DIAYN-50 @100k"),
    }
    unrewarded = {"VISR @0", "Q-DIAYN-50 @0", "Pos Reward NSQ @0", "RF Curiosity @0", "Random @0"}
    rewarded = {"NSQ @100k", "NSQ @10M", "DQN @10M", "PPO @500k", "Rainbow @10M", "DER @100k"}
    assert set(entries(tmp_path)) == pre_trained | unrewarded | rewarded


def test_the_score_of_a_run_is_its_first_condition(tmp_path: Path):
    play(new_run(tmp_path, "visr", ATARI[0], 3), regression=4.0, search=30.0, random=1.0)
    assert entries(tmp_path)["GPI VISR @100k"].scores == {ATARI[0]: {3: 4.0}}
    assert entries(tmp_path)["Random @0"].scores == {ATARI[0]: {3: 1.0}}


GPI = {"features": "learned", "gpi": True}


@pytest.mark.parametrize(
    ("agent", "label"),
    [
        (GPI, "GPI VISR"),
        ({"features": "random", "gpi": False}, "RF VISR"),
        ({**GPI, "num_features": 64}, "GPI VISR, d = 64"),
        ({**GPI, "bonus": "rnd"}, "VISR + RND bonus"),
        ({**GPI, "objective": "metra"}, "VISR, METRA phi"),
        ({**GPI, "bonus": "rnd", "objective": "metra"}, "GPI VISR with metra, rnd"),
        ({**GPI, **presets.MINATAR_PLUS}, "VISR+"),
        ({**GPI, **presets.MINATAR_PLUS, "num_features": 16}, "VISR+, d = 16"),
        (
            {"features": "random", "gpi": True, "bonus": "rnd", "value_weight": 2.0},
            "GPI RF VISR with rnd, weighted",
        ),
        ({"algorithm": "diayn", "num_skills": 50, "diayn_subtract_prior": True}, "Q-DIAYN-50"),
        (
            {"algorithm": "diayn", "num_skills": 5, "diayn_subtract_prior": False},
            "Q-DIAYN-5 (log q)",
        ),
        ({"algorithm": "rainbow", "rainbow_recipe": "data-efficient"}, "DER @10M"),
        ({"algorithm": "nsq"}, "NSQ @10M"),
        ({"algorithm": "pos-nsq"}, "Pos Reward NSQ @0"),
        ({"algorithm": "of another version"}, "of another version @10M"),
    ],
)
def test_the_label_follows_from_the_configuration(agent: dict[str, Any], label: str):
    assert read.label_of(agent, 10_000_000) == label


def test_runs_without_a_plan_are_labelled_too(tmp_path: Path):
    for number, fields in enumerate(({}, {"bonus": "rnd"})):
        config = configuration.replace(RunConfig(), env=MINATAR[0], num_steps=STEPS, **fields)
        play(RunDir.create(tmp_path / str(number), config), regression=float(number))
    assert entries(tmp_path)["GPI VISR @100k"].scores == {MINATAR[0]: {0: 0.0}}
    assert entries(tmp_path)["VISR + RND bonus @100k"].scores == {MINATAR[0]: {0: 1.0}}


def test_ways_of_older_plans_are_entries_too(tmp_path: Path):
    run = new_run(tmp_path, "visr", MINATAR[0], 0)
    play(run, regression=6.0)
    conditions = (adapted("rounds", 7.0), adapted("from scratch", 8.0))
    write_json(run.adapted, schema.to_dict(Adapted(MINATAR[0], STEPS, conditions)))
    found = entries(tmp_path)
    assert found["GPI VISR, rounds @100k"].scores == {MINATAR[0]: {0: 7.0}}
    assert found["Fine-tuning's learner from scratch @100k"].scores == {MINATAR[0]: {0: 8.0}}


def test_a_fine_tuned_run_is_not_in_the_tables(tmp_path: Path):
    run = new_run(tmp_path, "visr", MINATAR[0], 0)
    play(run, regression=6.0, random=1.0)
    assert "GPI VISR @100k" in entries(tmp_path)
    write_json(run.finetune, {"format": 1, "settings": {}})
    assert not entries(tmp_path)
    assert "fine-tuned" in read.read(tmp_path)[0][0].why_left_out


def test_a_repeated_run_counts_once(atari: Path):
    play(new_run(atari / "copy", "visr", ATARI[0], 0), regression=999.0, random=0.0)
    _, repeated = collect(read.read(atari)[0])
    (sentence,) = repeated.values()
    assert "same agent, steps, game and seed" in sentence


@pytest.mark.parametrize(
    ("env", "num_steps", "episodes", "budget"),
    [
        (ATARI[0], 30_000, 50, "100k"),  # the paper's 50 episodes ended before 100k steps
        (ATARI[0], 30_000, 8, "30k"),
        (MINATAR[0], 3_008, 300, "3k"),
        (MINATAR[0], 99_840, 900, "100k"),
    ],
)
def test_an_entry_names_its_number_of_rewarded_steps(
    env: str, num_steps: int, episodes: int, budget: str, tmp_path: Path
):
    run = new_run(tmp_path, "visr", env, 0)
    play(run, regression=6.0, random=1.0)
    found = Condition(**condition("env-regression", 6.0))
    score_run(run, found, num_rewarded_steps=num_steps, num_rewarded_episodes=episodes)
    assert f"GPI VISR @{budget}" in entries(tmp_path)
