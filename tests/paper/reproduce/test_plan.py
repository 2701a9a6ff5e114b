"""Plans: their jobs, the order of the jobs, and their settings."""

from __future__ import annotations

from typing import Any

import pytest

from visr import atari_games
from visr.errors import UserError
from visr.paper.reproduce import agents, plan


def test_the_paper_s_plan_is_57_games_3_seeds_and_250_million_steps():
    paper = plan.make("atari", paper=True)
    visr = [job for job in paper.jobs if job.agent == "visr" and job.phase == "train"]
    assert len(visr) == 57 * 3
    assert {job.game for job in visr} == {game.id for game in atari_games.all_games()}
    assert {job.num_steps for job in visr} == {250_000_000}
    nsq = [job for job in paper.jobs if job.agent == "nsq-2500k" and job.phase == "train"]
    assert {4 * job.num_steps for job in nsq} == {10_000_000}  # frames


def test_minatar_has_every_agent_of_the_table_in_all_five_games():
    assert {job.agent for job in plan.make("minatar").jobs} == {
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
def test_the_grid_plan_refuses_agents_that_cannot_be_given_a_task(name: str):
    with pytest.raises(UserError, match=f"{name} cannot be given a task"):
        plan.make("grid", only=["visr", name])


def test_the_name_of_an_agent_decides_its_settings():
    def configured(name: str):
        return plan.make("minatar", only=[name], seeds=[0]).jobs[0].config

    assert configured("visr").agent.gpi
    assert not configured("visr-no-gpi").agent.gpi
    assert configured("rf-visr").agent.features == "random"
    assert configured("diayn-50").agent.num_skills == 50
    assert configured("diayn-5").agent.diayn_subtract_prior
    assert not configured("diayn-5-log-q").agent.diayn_subtract_prior
    assert configured("nsq-10m").training.num_steps == 10_000_000


def test_num_steps_does_not_change_agents_with_steps_in_their_name():
    jobs = plan.make("minatar", only=["visr", "nsq-100k"], seeds=[0], num_steps=5_000).jobs
    steps = {job.agent: job.num_steps for job in jobs if job.phase == "train"}
    assert steps == {"visr": 5_000, "nsq-100k": 100_000}


@pytest.mark.parametrize("name", ["breakout", "Breakout", "MinAtar/Breakout-v1"])
def test_games_are_found_by_id_or_bare_name(name: str):
    jobs = plan.make("minatar", chosen_games=[name], only=["visr"], seeds=[0]).jobs
    assert {job.game for job in jobs} == {"MinAtar/Breakout-v1"}


def test_atari_games_are_found_by_rom_name():
    jobs = plan.make("atari", chosen_games=["ms_pacman", "up_n_down"], only=["visr"]).jobs
    assert {job.game for job in jobs} == {"ALE/MsPacman-v5", "ALE/UpNDown-v5"}


def test_the_config_hash_depends_on_settings_and_seed():
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
def test_impossible_plans_are_refused(arguments: dict, words: str):
    with pytest.raises(UserError, match=words):
        plan.make("minatar", **arguments)


def test_every_default_agent_has_a_known_name():
    for names in (*plan.AGENTS.values(), plan.PAPER_AGENTS):
        assert [agents.named(name).name for name in names] == list(names)


def test_only_the_plan_beyond_adapts_in_other_ways():
    for suite in ("grid", "minatar", "atari"):
        jobs = plan.make(suite, only=["visr"]).jobs
        assert all(job.phase != "adapt" and not job.ways for job in jobs)


def test_config_hashes_stay_the_same_from_version_to_version():
    def hashes(suite: plan.SuiteName, **limits: Any) -> list[str]:
        jobs = plan.make(suite, chosen_games=["breakout"], seeds=[0], **limits).jobs
        return [job.config_hash for job in jobs]

    # Recorded again when plans took the paper's rewarded phase, three draws and feature_centre = latest.
    train, evaluate = "e543c95b5b8280c2", "49da22b243cd3b8e"
    assert hashes("minatar", only=["visr"]) == [train, evaluate]
    assert hashes("beyond", only=["visr"]) == [train, evaluate, "0a08e8a795b988df"]
    assert hashes("beyond", only=["visr"], ways=["relabelled"])[2] == "ff254cd9d937650e"
    assert hashes("beyond", only=["visr-plus"])[2] == "1f55f34e0252ceb2"


def test_free_steps_change_the_hash_only_of_the_job_that_uses_them():
    def hashes(free_steps: int) -> list[str]:
        counts = plan.Counts(rewarded_episodes=0, free_steps=free_steps)
        jobs = plan.make("beyond", only=["visr"], seeds=[0], counts=counts).jobs[:3]
        return [job.config_hash for job in jobs]

    one, other = hashes(1_000), hashes(2_000)
    assert one[:2] == other[:2]
    assert one[2] != other[2]


def test_chosen_ways_are_the_only_ones():
    jobs = plan.make("beyond", only=["visr", "visr-rnd"], seeds=[0], ways=["relabelled"]).jobs[:5]
    assert [(job.agent, job.phase, job.ways) for job in jobs] == [
        ("visr", "train", ()),
        ("visr", "evaluate", ()),
        ("visr", "adapt", ("relabelled",)),
        ("visr-rnd", "train", ()),
        ("visr-rnd", "evaluate", ()),
    ]
    with pytest.raises(UserError, match="'fine-tuned'"):
        plan.make("minatar", only=["visr"], ways=["fine-tuned"])
    with pytest.raises(UserError, match="'fine-tuned'"):
        plan.make("beyond", only=["visr-plus"], ways=["fine-tuned"])


def test_visr_plus_with_another_number_of_features_is_an_agent():
    plus = agents.named("visr-plus").fields
    assert agents.named("visr-plus-d16").fields == {**plus, "num_features": 16}
