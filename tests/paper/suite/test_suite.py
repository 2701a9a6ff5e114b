"""Reports over many made-up runs: nothing is trained here, files are all a report knows."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.paper.suite.made_up_runs import make_runs
from tests.report.made_up_runs import HOSTILE, MARKUP, Reader, condition, phase, png_chunks
from tests.report.made_up_runs import train as train_on_grid
from tests.test_cli import visr
from visr import atari_games, report
from visr import config as configuration
from visr.config import GRID, RunConfig, presets
from visr.errors import UserError
from visr.paper.suite import (
    build,
    curves,
    game_suites,
    interval_figures,
    pairwise_figures,
    paper_tables,
    published,
    read,
)
from visr.paper.suite import rows as entries
from visr.paper.suite.read import named_by
from visr.paper.suite.table import Row, Table
from visr.storage.files import write_json
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows

UNADAPTED = "@0 (a new task every 40 steps)"
ATARI, SMALL = ("ALE/Pong-v5", "ALE/Alien-v5"), ("MinAtar/Breakout-v1", "MinAtar/Asterix-v1")
STEPS = 3000


def new_run(root: Path, agent: str, env: str, seed: int, **fields: Any) -> RunDir:
    """What `visr reproduce` leaves behind before anything is trained."""
    place = root / "runs" / agent / env.replace("/", "-") / f"seed-{seed}"
    config = configuration.replace(RunConfig(), env=env, seed=seed, num_steps=STEPS, **fields)
    run = RunDir.create(place, config)
    job = {"format": 1, "suite": "x", "agent": agent, "game": env, "seed": seed}
    write_json(run.job, job | {"config_hash": "0" * 16})
    return run


def play(run: RunDir, **scores: float) -> None:
    """Training, a curve that rises to the first score, and the conditions with these means."""
    names = {
        "regression": "env-regression", "search": "env-search", "unadapted": UNADAPTED,
        "trained": "as trained", "random": "random policy",
    }  # fmt: skip
    steps = [STEPS * i // 10 for i in range(1, 11)]
    append_rows(run.metrics, ["num_steps", "psi_loss"], [[s, 1.0] for s in steps])
    best = next(iter(scores.values()))
    columns = ["num_steps", "num_episodes", "mean_return", "r_squared", "num_rewarded"]
    append_rows(run.online, columns, [[s, 5, best * s / STEPS, 0.1, 3] for s in steps])
    judged = [condition(names[name], score) for name, score in scores.items()]
    env = run.config().env
    content = phase(*judged, env=env, num_steps=STEPS)
    if not env.startswith("ALE/"):  # only there may fifty episodes come first
        content["num_rewarded_steps"] = 99_840
    write_json(run.phase_two, content)


def table_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def told(root: Path) -> dict[str, Any]:
    return build.summary(build.gather(root))


def every_file(root: Path) -> dict[Path, bytes]:
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def lines(root: Path) -> dict[str, entries.Entry]:
    found, _ = entries.gather(read.read(root)[0])
    return {entry.key.name: entry for entry in found}


@pytest.fixture
def atari(tmp_path: Path) -> Path:
    """Two agents on two games, two seeds each."""
    root = tmp_path / "atari"
    for game in ATARI:
        for seed in (0, 1):
            base = {"regression": 100.0 + seed, "search": 50.0, "unadapted": 20.0, "random": 0.0}
            play(new_run(root, "visr", game, seed), **base)
            play(new_run(root, "nsq-10m", game, seed), trained=70.0 + seed, random=0.0)
    return root


@pytest.fixture
def minatar(tmp_path: Path) -> Path:
    root = tmp_path / "minatar"
    for game in SMALL:
        for seed in (0, 1):
            play(new_run(root, "visr", game, seed), regression=6.0, search=4.0, random=1.0)
            play(new_run(root, "nsq-10m", game, seed), trained=11.0, random=1.0)
    return root


def test_the_contract_names_every_agent_as_the_paper_does(tmp_path: Path):
    play(new_run(tmp_path, "visr", ATARI[0], 0), regression=4.0, search=3.0, unadapted=2.0)
    play(new_run(tmp_path, "visr-no-gpi", ATARI[0], 0), regression=4.0, search=3.0, unadapted=2.0)
    play(new_run(tmp_path, "rf-visr", ATARI[0], 0), regression=4.0, search=3.0, unadapted=2.0)
    play(new_run(tmp_path, "rf-visr-no-gpi", ATARI[0], 0), search=3.0, unadapted=2.0)
    play(new_run(tmp_path, "diayn-50", ATARI[0], 0), search=3.0, unadapted=2.0)
    play(new_run(tmp_path, "diayn-5-log-q", ATARI[0], 0), search=3.0)
    trained = ("nsq-100k", "nsq-10m", "pos-nsq", "rf-curiosity", "dqn-10m", "ppo-500k")
    for agent in (*trained, "rainbow-10m", "der-100k"):
        play(new_run(tmp_path, agent, ATARI[0], 0), trained=4.0)
    play(new_run(tmp_path, "uniform", ATARI[0], 0), random=1.0)
    pre_trained = {
        *("GPI VISR @100k", "GPI VISR by search @100k", "VISR @100k", "VISR by search @100k"),
        *("GPI RF VISR @100k", "GPI RF VISR by search @100k"),
        "RF VISR @100k",  # no reward was ever seen: search is its score, not a second one
        *("Q-DIAYN-5 (log q) @100k", "Q-DIAYN-50 @100k"),
    }
    unrewarded = {"VISR @0", "Q-DIAYN-50 @0", "Pos Reward NSQ @0", "RF Curiosity @0", "Random @0"}
    rewarded = {"NSQ @100k", "NSQ @10M", "DQN @10M", "PPO @500k", "Rainbow @10M", "DER @100k"}
    assert set(lines(tmp_path)) == pre_trained | unrewarded | rewarded


def test_a_run_s_score_is_its_first_condition(tmp_path: Path):
    play(new_run(tmp_path, "visr", ATARI[0], 3), regression=4.0, search=30.0, random=1.0)
    assert lines(tmp_path)["GPI VISR @100k"].scores == {ATARI[0]: {3: 4.0}}
    assert lines(tmp_path)["Random @0"].scores == {ATARI[0]: {3: 1.0}}


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ({"features": "learned", "gpi": True}, "visr"),
        ({"features": "random", "gpi": False}, "rf-visr-no-gpi"),
        ({"algorithm": "diayn", "num_skills": 50, "diayn_subtract_prior": True}, "diayn-50"),
        ({"algorithm": "diayn", "num_skills": 5, "diayn_subtract_prior": False}, "diayn-5-log-q"),
        ({"features": "learned", "gpi": True, "objective": "metra"}, "visr-metra"),
        ({"features": "learned", "gpi": True, **presets.MINATAR_PLUS}, "visr-plus"),
        (
            {"features": "random", "gpi": True, "bonus": "rnd", "value_weight": 2.0},
            "rf-visr-rnd-weighted",
        ),
        ({"algorithm": "rainbow", "rainbow_recipe": "data-efficient"}, "der"),
        ({"algorithm": "nsq"}, "nsq-10m"),
        ({"algorithm": "pos-nsq"}, "pos-nsq"),
    ],
)
def test_a_run_without_a_plan_is_named_by_its_configuration(agent: dict[str, Any], name: str):
    assert named_by(agent, 10_000_000) == name


def test_our_own_claims_are_in_the_summary_too(tmp_path: Path):
    for game in SMALL:
        run = new_run(tmp_path, "visr-plus", game, 0)
        play(run, regression=6.0, random=1.0)
        adapted = {
            **condition("relabelled", 9.0),
            "num_rewarded_steps": 99_840,
            "num_free_steps": 0,
        }
        content = {"format": 1, "env": game, "num_steps": STEPS, "conditions": [adapted]}
        write_json(run.adapted, content)
        play(new_run(tmp_path, "nsq-100k", game, 0), trained=2.0)
    claims = [claim["better"] for claim in told(tmp_path)["suites"]["minatar"]["claims"]]
    assert "VISR+, relabelled @100k" in claims


def test_a_fine_tuned_run_is_no_line_of_a_table(tmp_path: Path):
    run = new_run(tmp_path, "visr", SMALL[0], 0)
    play(run, regression=6.0, random=1.0)
    assert "GPI VISR @100k" in lines(tmp_path)
    write_json(run.finetune, {"format": 1, "settings": {}})
    assert not lines(tmp_path)
    assert "fine-tuned" in read.read(tmp_path)[0][0].state


def test_additions_without_a_plan_are_no_line_of_the_paper_s(tmp_path: Path):
    for number, fields in enumerate(({}, {"bonus": "rnd"}, {"bonus": "rnd", "objective": "metra"})):
        config = configuration.replace(RunConfig(), env=SMALL[0], num_steps=STEPS, **fields)
        play(RunDir.create(tmp_path / str(number), config), regression=float(number))
    found = {name: entry.scores for name, entry in lines(tmp_path).items()}
    assert found["GPI VISR @100k"] == {SMALL[0]: {0: 0.0}}
    assert found["VISR + RND bonus @100k"] == {SMALL[0]: {0: 1.0}}
    assert found["GPI VISR with metra, rnd @100k"] == {SMALL[0]: {0: 2.0}}


def test_the_paper_s_table_stands_beside_ours(atari: Path):
    table = paper_table(atari)
    rows = {row.cells[0]: row.cells[1:] for row in table.rows}
    assert rows["GPI VISR @100k"][:5] == ("6.59", "111.23", "22", "7", "–")
    (ours,) = [name for name in rows if name.startswith("GPI VISR @100k, ours")]
    assert "3k steps, 2 seeds, 2/26 2/47 2/57 games" in ours
    # Pong: (100.5 + 20.7) / 35.3; Alien: (100.5 - 227.8) / 6899.9
    pong, alien = 100 * 121.2 / 35.3, 100 * -127.3 / 6899.9
    assert rows[ours][:5] == (f"{(pong + alien) / 2:.2f}",) * 2 + ("1", "1", "1")


def paper_table(root: Path) -> Table:
    found = read.read(root)[0]
    (suite,) = game_suites.sort(found, entries.gather(found)[0])
    return paper_tables.table_1(suite)


def test_every_published_figure_is_printed_exactly(atari: Path):
    found = read.read(atari)[0]
    (suite,) = game_suites.sort(found, entries.gather(found)[0])
    table, appendix = paper_tables.table_1(suite), paper_tables.appendix(suite)
    for format, minus in (("md", "−"), ("csv", "-"), ("html", "−"), ("tex", "$-$")):
        text = table.files()[f"atari_table1.{format}"]
        for row in published.paper_table():
            for figure in (row.median, row.mean, row.n_above_random, row.n_above_human):
                assert figure.replace("-", minus) in text
    cells = {row.cells[0]: row.cells[1:] for row in appendix.rows}
    for row in published.paper_table():
        place = [subset.key for subset in atari_games.subsets()].index(row.subset) * 5
        if row.median:
            std = row.median_std.replace("unknown(?)", "?")
            assert cells[row.name][place] == f"{row.median} ± {std}"
            assert cells[row.name][place + 2] == row.n_above_random
        else:
            assert cells[row.name][place] == "–"


def test_minatar_is_normalised_by_what_was_measured(minatar: Path):
    found = read.read(minatar)[0]
    (suite,) = game_suites.sort(found, entries.gather(found)[0])
    by_name = {key.name: aggregate for (key, _), aggregate in suite.aggregates.items()}
    assert by_name["NSQ @10M"].mean == pytest.approx(100)
    assert by_name["GPI VISR @100k"].mean == pytest.approx(50)  # (6 - 1) / (11 - 1)
    assert by_name["Random @0"].mean == pytest.approx(0)
    rows = {row.cells[0]: row.cells[1:] for row in paper_tables.appendix(suite).rows}
    assert rows["GPI VISR @100k, ours: 3k steps, 2 seeds"][:3] == (
        "50.00 ± 0.00",
        "50.00 ± 0.00",
        "2",
    )


def test_minatar_without_a_reference_stays_raw(tmp_path: Path):
    play(new_run(tmp_path, "visr", SMALL[0], 0), regression=6.0, search=4.0, random=1.0)
    (suite,) = build.gather(tmp_path).suites
    assert suite.unit == "raw score"
    assert suite.aggregates == {}
    assert "no reference" in suite.scale_words


def test_claims_are_judged_in_plain_words(minatar: Path):
    for game in SMALL:
        for seed in (0, 1):
            play(new_run(minatar, "rf-visr", game, seed), regression=1.5, random=1.0)
    claims = {c["claim"]: c for c in told(minatar)["suites"]["minatar"]["claims"]}
    assert claims["Learned features beat random ones"]["verdict"] == "holds"
    assert (
        claims["Pre-training beats 100 times as many rewarded steps"]["verdict"] == "does not hold"
    )
    assert claims["What was learnt is worth more than chance"]["games_ahead"] == 2


def test_a_single_seed_is_not_enough_evidence(tmp_path: Path):
    play(new_run(tmp_path, "visr", SMALL[0], 0), regression=6.0, random=1.0)
    play(new_run(tmp_path, "nsq-100k", SMALL[0], 0), trained=2.0, random=1.0)
    claims = told(tmp_path)["suites"]["minatar"]["claims"]
    assert {claim["verdict"] for claim in claims} == {"not enough evidence"}


def test_half_finished_and_damaged_runs_are_told_of_in_words(atari: Path):
    stopped = new_run(atari, "visr", ATARI[0], 7)
    append_rows(stopped.metrics, ["num_steps", "psi_loss"], [[1000, 1.0]])
    unjudged = new_run(atari, "visr", ATARI[0], 8)
    append_rows(unjudged.metrics, ["num_steps", "psi_loss"], [[STEPS, 1.0]])
    damaged = new_run(atari, "visr", ATARI[0], 9)
    damaged.phase_two.write_text('{"format": 1')
    (new_run(atari, "visr", ATARI[0], 10).config_file).write_text("{}")
    mistaken = new_run(atari, "visr", ATARI[0], 11)
    write_json(mistaken.job, {"agent": "visr", "game": ATARI[1], "seed": 11})
    new_run(atari, "visr", ATARI[0], 12).online.write_text("num_steps,mean_return\n1,2,3\n")
    summary = report.write(atari)
    told = {name.rsplit("-", 1)[1]: words for name, words in summary["left_out"].items()}
    assert "stopped at 1,000 of 3,000 steps" in told["7"]
    assert "never taken" in told["8"]
    assert "phase_two.json is damaged" in told["9"]
    assert "config.json" in told["10"]
    assert "speaks of 'ALE/Alien-v5'" in told["11"]
    assert "online.csv" in told["12"]
    assert summary["num_counted"] == 8
    words = Reader(Path(summary["page"]).read_text()).words
    assert all(sentence in words for sentence in summary["left_out"].values())


def test_a_run_that_is_there_twice_counts_once(atari: Path):
    copy = new_run(atari / "copy", "visr", ATARI[0], 0)
    play(copy, regression=999.0, random=0.0)
    (words,) = told(atari)["left_out"].values()
    assert "same agent, steps, game and seed" in words


def test_the_grid_is_valued_exactly(tmp_path: Path):
    for seed in (0, 1):
        run = new_run(tmp_path, "visr", GRID, seed, height=4, width=6, num_features=3)
        train_on_grid(run)
    rows = [[0, 0.1, 0.2], [100, 0.5, 0.6]]
    append_rows(tmp_path / "kept-0.csv", ["num_steps", "span", "boxes"], rows)
    summary = report.write(tmp_path)
    (found,) = summary["suites"]["grid"]["aggregates"]
    assert found["algorithm"] == "GPI VISR"
    last = np.linspace(
        -0.2, 1.0, 8
    )  # as made_up_runs.train writes it: boxes_gpi is 4th, goals_gpi 7th
    assert found["mean"] == pytest.approx(100 * (last[3] + last[6]) / 2)
    table = (tmp_path / "report/tables/grid_kept.csv").read_text()
    assert re.search(r'^"kept, 100 steps, 1 seed",0\.500,,0\.600', table, flags=re.MULTILINE)
    assert (tmp_path / "report/figures/features.png").exists()


@pytest.mark.parametrize(
    "content", ["num_steps,boxes\n1,2,3\n", "a,num_steps,boxes\nx,1\n", "\x00"]
)
def test_a_damaged_table_is_told_of_in_words_or_is_none_of_ours(atari: Path, content: str):
    (atari / "odd.csv").write_text(content)
    left_out = told(atari)["left_out"]
    assert left_out == {} if content == "\x00" else "odd.csv is damaged" in left_out["odd.csv"]


def test_runs_of_different_lengths_are_different_curves(atari: Path):
    longer = new_run(atari / "longer", "visr", ATARI[0], 0)
    play(longer, regression=1.0, random=0.0)
    longer.write_config(configuration.replace(longer.config(), num_steps=6000))
    (suite,) = build.gather(atari).suites
    found = curves.collect(suite, suite.runs)
    assert set(found.by_agent) == {"GPI VISR, 3k", "GPI VISR, 6k", "NSQ @10M"}


def test_figure_2a_is_of_games_that_every_line_has(minatar: Path):
    for seed in (0, 1):  # without GPI only the first game was played, and worse
        play(new_run(minatar, "visr-no-gpi", SMALL[0], seed), regression=3.0, random=1.0)
    (suite,) = build.gather(minatar).suites
    drawing = curves.over_training(suite)
    assert drawing is not None
    assert "Left out, as not every line has it: Asterix." in drawing.caption
    assert "(1 here)" in drawing.caption
    # a game that all but one line lack must not move their medians
    ends = {row[0]: row[2] for row in drawing.rows}
    play(new_run(minatar, "visr", "MinAtar/Freeway-v1", 0), regression=99.0, random=1.0)
    play(new_run(minatar, "nsq-10m", "MinAtar/Freeway-v1", 0), trained=11.0, random=1.0)
    (suite,) = build.gather(minatar).suites
    again = curves.over_training(suite)
    assert again is not None
    assert {row[0]: row[2] for row in again.rows} == ends


def test_figure_2a_s_band_is_of_seeds_that_played_every_game(minatar: Path):
    play(new_run(minatar, "visr", SMALL[0], 2), regression=60.0, random=1.0)
    (suite,) = build.gather(minatar).suites
    drawing = curves.over_training(suite)
    assert drawing is not None
    *_, lowest, highest = drawing.rows[-1]
    assert lowest == highest  # seeds 0 and 1 score alike; seed 2 has one game of two


def test_figure_2a_leaves_out_what_was_left_out(atari: Path):
    half = new_run(atari, "visr", "ALE/MsPacman-v5", 0)
    play(half, regression=9.0, random=0.0)
    half.write_config(configuration.replace(half.config(), num_steps=10 * STEPS))
    (suite,) = build.gather(atari).suites
    drawing = curves.over_training(suite)
    assert drawing is not None
    assert "(2 here)" in drawing.caption
    assert "Left out" not in drawing.caption


@pytest.mark.parametrize(
    ("env", "num_steps", "episodes", "budget"),
    [
        (ATARI[0], 30_000, 50, "100k"),  # the paper's fifty episodes came first
        (ATARI[0], 30_000, 8, "30k"),
        (SMALL[0], 3_008, 300, "3k"),
        (SMALL[0], 99_840, 900, "100k"),
    ],
)
def test_a_line_says_how_many_rewarded_steps_it_had(
    env: str, num_steps: int, episodes: int, budget: str, tmp_path: Path
):
    run = new_run(tmp_path, "visr", env, 0)
    play(run, regression=6.0, random=1.0)
    met = {"num_rewarded_steps": num_steps, "num_rewarded_episodes": episodes}
    content = phase(condition("env-regression", 6.0), env=env, num_steps=STEPS)
    write_json(run.phase_two, content | met)
    assert f"GPI VISR @{budget}" in lines(tmp_path)


def test_claims_compare_agents_that_trained_for_as_many_steps(minatar: Path):
    for seed in (0, 1):
        longer = new_run(minatar / "longer", "visr", SMALL[0], seed)
        play(longer, regression=99.0, random=1.0)
        longer.write_config(configuration.replace(longer.config(), num_steps=STEPS // 2))
        play(new_run(minatar, "rf-visr", SMALL[0], seed), regression=1.5, random=1.0)
    words = {row["Claim"]: row["Compared"] for row in table_of(_claims(minatar))}
    assert words["Learned features beat random ones"] == "GPI VISR @100k > GPI RF VISR @100k"
    for seed in (0, 1):
        shorter = RunDir(minatar / "runs" / "rf-visr" / "MinAtar-Breakout-v1" / f"seed-{seed}")
        shorter.write_config(configuration.replace(shorter.config(), num_steps=STEPS // 3))
    words = {row["Claim"]: row["Compared"] for row in table_of(_claims(minatar))}
    assert (
        words["Learned features beat random ones"]
        == "GPI VISR @100k after 3k steps > GPI RF VISR @100k after 1k steps"
    )


def _claims(root: Path) -> Path:
    return Path(report.write(root)["page"]).parent / "tables" / "minatar_claims.csv"


def test_other_environments_have_a_table_and_curves_too(tmp_path: Path):
    play(new_run(tmp_path, "visr", "CartPole-v1", 0), regression=200.0, random=20.0)
    out = Path(report.write(tmp_path)["page"]).parent
    assert "| CartPole |" in (out / "tables/other_games.md").read_text()
    last = table_of(out / "figures/other_learning_curves.csv")[-1]
    assert (
        last["score"] == "150"
    )  # the mean of 30 episodes: of 6 rows, from half of 200 to all of it


def test_every_figure_is_a_png_in_light_and_dark_and_a_csv(atari: Path):
    before = told(atari)
    figures = Path(report.write(atari)["page"]).parent / "figures"
    names = {path.stem for path in figures.glob("*.csv")}
    assert names == {
        *("atari_figure_2a", "atari_figure_2b", "atari_figure_2c", "atari_intervals"),
        *("atari_profiles", "atari_learning_curves"),
    }
    for name in names:
        light, dark = (figures / f"{name}{end}.png" for end in ("", "-dark"))
        assert png_chunks(light.read_bytes())[0] == b"IHDR"
        assert light.read_bytes() != dark.read_bytes()
        rows = table_of(figures / f"{name}.csv")
        assert rows
        assert None not in rows[0]
    pairs = {row["game"]: row for row in table_of(figures / "atari_figure_2b.csv")}
    assert float(pairs["Pong"]["search"]) == pytest.approx(100 * 70.7 / 35.3)
    frames = {row["game"]: row for row in table_of(figures / "atari_figure_2c.csv")}
    assert frames["Pong"]["published_dqn_million_frames"] == "never"
    assert frames["Alien"]["published_dqn_million_frames"] == "1"
    assert told(atari) == before  # a report beside the runs is none of them


def test_a_line_of_fewer_games_says_so_beside_the_others(minatar: Path):
    play(new_run(minatar, "visr-rnd", SMALL[0], 0), regression=3.0, random=1.0)
    (suite,) = build.gather(minatar).suites
    drawing = interval_figures.intervals(suite)
    assert drawing is not None
    rows = {str(row[0]) for row in drawing.rows}
    assert {row for row in rows if "games" in row} == {
        row for row in rows if row.endswith(f"(1 of {len(SMALL)} games)")
    }
    assert len([row for row in rows if "games" in row]) == 1


def test_our_own_dqn_runs_appear_in_figure_2c(minatar: Path):
    for game in SMALL:
        play(new_run(minatar, "dqn-10m", game, 0), trained=8.0, random=1.0)
    (suite,) = build.gather(minatar).suites
    drawing = pairwise_figures.frames_of_dqn(suite)
    assert drawing is not None
    # short runs that never get there say nothing of how long it takes
    for game in SMALL:
        for seed in (0, 1, 2):
            short = new_run(minatar, "dqn-100k", game, seed)
            play(short, trained=2.0, random=1.0)
            short.write_config(configuration.replace(short.config(), num_steps=STEPS // 2))
    (suite,) = build.gather(minatar).suites
    drawing = pairwise_figures.frames_of_dqn(suite)
    assert drawing is not None
    # its running mean (of 30 episodes, 5 a row) first reaches 6 in the last row: 8 (.5 + ... + 1) / 6
    assert [row[-1] for row in drawing.rows] == [0.003, 0.003]


def test_the_page_needs_nothing_but_itself_and_escapes_everything(atari: Path):
    run = new_run(atari, "visr", ATARI[0], 5)
    play(run, regression=1.0, random=0.0)
    odd = f"{MARKUP} env \ud800 \x1b 目标"
    write_json(run.job, {"agent": HOSTILE, "game": odd, "seed": 5})
    for file in (run.config_file, run.phase_two):
        file.write_text(file.read_text().replace(ATARI[0], json.dumps(odd)[1:-1]))
    page = Path(report.write(atari)["page"]).read_text()
    reader = Reader(page)
    assert "script" not in {tag for tag, _ in reader.elements}
    for _, attributes in reader.elements:
        for name in ("src", "srcset", "href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:image/png;base64,", "#"))
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {a["href"] for tag, a in reader.elements if tag == "a"}
    assert targets <= {f"#{each}" for each in ids}


def test_the_same_runs_make_the_same_bytes(tmp_path: Path):
    make_runs(tmp_path / "runs", 14)
    for out in ("a", "b"):
        report.write(tmp_path / "runs", tmp_path / out)
    once, again = (every_file(tmp_path / out) for out in ("a", "b"))
    assert len(once) > 40
    assert once == again


def test_what_is_committed_is_redrawn(tmp_path: Path):
    summary = report.write(Path(__file__).parents[3] / "results", tmp_path)
    assert summary["num_counted"] >= 2
    assert list(summary["left_out"]) == ["atari/Pong"]  # stopped early, as docs/atari.md says
    assert (tmp_path / "tables/grid.md").exists()
    reader = Reader((tmp_path / "index.html").read_text())
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_without_torch(atari: Path):
    code = (
        "import sys; from visr.cli import main; main(['report', sys.argv[1]]); "
        "sys.exit(int(any(m in sys.modules for m in ('torch', 'gymnasium', 'scipy'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(atari)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_command_prints_the_aggregates_as_json(atari: Path):
    answer = visr("report", str(atari), "--json").json
    of = {a["games"]: a for a in answer["suites"]["atari"]["aggregates"] if a["algorithm"] == "NSQ"}
    assert set(of) == {"26_kaiser", "47_burda", "57_full"}
    assert of["26_kaiser"]["num_seeds"] == 2
    assert json.loads((atari / "report/aggregates.json").read_text())["num_runs"] == 8


def test_a_directory_without_runs_is_one_sentence(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    answer = visr("report", str(tmp_path / "empty"))
    assert answer.code == 2
    assert "holds no run" in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "empty/report").exists()


def test_nothing_but_damage_is_one_sentence(tmp_path: Path):
    (new_run(tmp_path, "visr", ATARI[0], 0).config_file).write_text("{}")
    with pytest.raises(UserError, match="the first of 1 damaged runs"):
        report.write(tmp_path)


def test_latex_and_markdown_escape_what_they_must():
    table = Table("t", "A & B_1", "50 % | more", ("Name", "x"), (Row(("a_b & c|d", "-1.5")),))
    assert r"a\_b \& c|d & $-$1.5 \\" in table.latex()
    assert r"A \& B\_1. 50 \% | more" in table.latex()
    assert "| a_b & c\\|d | −1.5 |" in table.markdown()
    assert table.csv() == "Name,x\na_b & c|d,-1.5\n"
