"""Plans: which jobs, in which order, with which settings."""

from __future__ import annotations

import pytest

from visr import atari_games
from visr.errors import UserError
from visr.paper.reproduce import agents as lineup
from visr.paper.reproduce import plan


def test_the_paper_s_plan_is_57_games_3_seeds_and_250_million_steps():
    paper = plan.make("atari", paper=True)
    visr = [job for job in paper.jobs if job.agent == "visr" and job.phase == "train"]
    assert len(visr) == 57 * 3
    assert {job.game for job in visr} == {game.id for game in atari_games.all_games()}
    assert {job.num_steps for job in visr} == {250_000_000}
    nsq = [job for job in paper.jobs if job.agent == "nsq-2500k" and job.phase == "train"]
    assert {4 * job.num_steps for job in nsq} == {10_000_000}  # frames


def test_minatar_has_every_agent_of_the_table_in_all_five_games():
    agents = {job.agent for job in plan.make("minatar").jobs}
    assert agents == {
        *("visr", "visr-no-gpi", "rf-visr", "rf-visr-no-gpi", "diayn-5", "diayn-50", "uniform"),
        *("nsq-100k", "nsq-1m", "nsq-10m", "pos-nsq", "rf-curiosity", "idf-curiosity"),
    }
    assert len({job.game for job in plan.make("minatar").jobs}) == 5


def test_an_evaluation_follows_its_training_and_the_grid_has_none():
    jobs = plan.make("minatar", only=["visr"], chosen_games=["breakout"]).jobs
    assert [(job.seed, job.phase) for job in jobs] == [
        *[(0, "train"), (0, "evaluate"), (1, "train"), (1, "evaluate")],
        *[(2, "train"), (2, "evaluate")],
    ]
    assert {job.phase for job in plan.make("grid").jobs} == {"train"}


@pytest.mark.parametrize("name", ["uniform", "nsq-100k", "rainbow-100k", "pos-nsq"])
def test_the_grid_has_no_place_for_agents_that_cannot_be_given_a_task(name: str):
    with pytest.raises(UserError, match=f"{name} cannot be given a task"):
        plan.make("grid", only=["visr", name])


def test_agents_differ_in_what_their_names_say():
    def configured(name: str):
        return plan.make("minatar", only=[name], seeds=[0]).jobs[0].config

    assert configured("visr").agent.gpi
    assert not configured("visr-no-gpi").agent.gpi
    assert configured("rf-visr").agent.features == "random"
    assert configured("diayn-50").agent.num_skills == 50
    assert configured("diayn-5").agent.diayn_subtract_prior
    assert not configured("diayn-5-log-q").agent.diayn_subtract_prior
    assert configured("nsq-10m").training.num_steps == 10_000_000


def test_a_budget_in_a_name_is_kept_when_the_plan_is_cut_down():
    jobs = plan.make("minatar", only=["visr", "nsq-100k"], seeds=[0], num_steps=5_000).jobs
    steps = {job.agent: job.num_steps for job in jobs if job.phase == "train"}
    assert steps == {"visr": 5_000, "nsq-100k": 100_000}


@pytest.mark.parametrize("name", ["breakout", "Breakout", "MinAtar/Breakout-v1"])
def test_games_go_by_id_or_by_bare_name(name: str):
    jobs = plan.make("minatar", chosen_games=[name], only=["visr"], seeds=[0]).jobs
    assert {job.game for job in jobs} == {"MinAtar/Breakout-v1"}


def test_atari_s_games_go_by_their_roms_names_too():
    jobs = plan.make("atari", chosen_games=["ms_pacman", "up_n_down"], only=["visr"]).jobs
    assert {job.game for job in jobs} == {"ALE/MsPacman-v5", "ALE/UpNDown-v5"}


def test_the_hash_tells_settings_apart_and_seeds_too():
    def hashes(num_steps: int | None = None) -> set[str]:
        jobs = plan.make("minatar", only=["visr"], num_steps=num_steps).jobs
        return {job.config_hash for job in jobs}

    assert len(hashes()) == 5 * 3 * 2
    assert hashes() == hashes()
    assert not hashes() & hashes(num_steps=5_000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"only": ["vizr"]}, "no agent 'vizr'"),
        ({"only": ["nsq-lots"]}, "no agent 'nsq-lots'"),
        ({"chosen_games": ["pong"]}, "no game 'pong'"),
        ({"seeds": []}, "names no seed"),
        ({"seeds": [-1]}, "seed = -1"),
        ({"num_steps": 0}, "num_steps = 0"),
        ({"paper": True}, "Atari"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: dict, words: str):
    with pytest.raises(UserError, match=words):
        plan.make("minatar", **arguments)


def test_every_default_agent_is_one_that_can_be_named():
    for names in (*plan.AGENTS.values(), plan.PAPER_AGENTS):
        assert [lineup.entry(name).name for name in names] == list(names)
