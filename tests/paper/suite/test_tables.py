"""Tables and claims."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.paper.suite.made_up_runs import (
    ATARI,
    MINATAR,
    STEPS,
    adapted,
    new_run,
    play,
)
from visr import atari_games
from visr import config as configuration
from visr.config import GRID
from visr.paper.suite import build, claims, grid, published, tables
from visr.paper.suite.entries import Suite
from visr.paper.suite.tables import Table, TableRow
from visr.storage import schema
from visr.storage.files import write_json
from visr.storage.records.two_phase import Adapted
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows


def suite_of(root: Path) -> Suite:
    (suite,) = build.gather(root).suites
    return suite


def test_our_rows_are_below_the_published_ones(atari: Path):
    rows = {row.cells[0]: row.cells[1:] for row in tables.table_1(suite_of(atari)).rows}
    assert rows["GPI VISR @100k"][:5] == ("6.59", "111.23", "22", "7", "–")
    (ours,) = [name for name in rows if name.startswith("GPI VISR @100k, ours")]
    assert "3k steps, 2 seeds, 2/26 2/47 2/57 games" in ours
    # Pong: (100.5 + 20.7) / 35.3; Alien: (100.5 - 227.8) / 6899.9
    pong, alien = 100 * 121.2 / 35.3, 100 * -127.3 / 6899.9
    assert rows[ours][:5] == (f"{(pong + alien) / 2:.2f}",) * 2 + ("1", "1", "1")


def test_every_published_number_is_printed_exactly(atari: Path):
    suite = suite_of(atari)
    table, appendix = tables.table_1(suite), tables.appendix(suite)
    for format, minus in (("md", "−"), ("csv", "-"), ("tex", "$-$")):
        text = table.files()[f"atari_table1.{format}"]
        for row in published.paper_table():
            for number in (row.median, row.mean, row.n_above_random, row.n_above_human):
                assert number.replace("-", minus) in text
    cells = {row.cells[0]: row.cells[1:] for row in appendix.rows}
    for row in published.paper_table():
        place = [games.key for games in atari_games.game_sets()].index(row.subset) * 5
        if row.median:
            std = row.median_std.replace("unknown(?)", "?")
            assert cells[row.name][place] == f"{row.median} ± {std}"
            assert cells[row.name][place + 2] == row.n_above_random
        else:
            assert cells[row.name][place] == "–"


def test_minatar_scores_are_normalised_by_nsq_and_random_play(minatar: Path):
    suite = suite_of(minatar)
    by_name = {key.name: aggregate for (key, _), aggregate in suite.aggregates.items()}
    assert by_name["NSQ @10M"].mean == pytest.approx(100)
    assert by_name["GPI VISR @100k"].mean == pytest.approx(50)  # (6 - 1) / (11 - 1)
    assert by_name["Random @0"].mean == pytest.approx(0)
    rows = {row.cells[0]: row.cells[1:] for row in tables.appendix(suite).rows}
    ours = rows["GPI VISR @100k, ours: 3k steps, 2 seeds"]
    assert ours[:3] == ("50.00 ± 0.00", "50.00 ± 0.00", "2")


def test_minatar_scores_without_a_reference_are_raw(tmp_path: Path):
    play(new_run(tmp_path, "visr", MINATAR[0], 0), regression=6.0, search=4.0, random=1.0)
    suite = suite_of(tmp_path)
    assert suite.unit == "raw score"
    assert suite.aggregates == {}
    assert "no reference" in suite.scale_words


def test_other_environments_have_a_table_of_raw_scores(tmp_path: Path):
    play(new_run(tmp_path, "visr", "CartPole-v1", 0), regression=200.0, random=20.0)
    table = tables.game_scores(suite_of(tmp_path))
    assert table is not None
    assert table.name == "other_games"
    assert table.rows[0].cells[:2] == ("CartPole", "20.0")


def verdicts(suite: Suite) -> dict[str, claims.JudgedClaim]:
    return {judged.claim.words: judged for judged in claims.judge(suite, claims.PAPER)}


def test_claims_get_a_verdict(minatar: Path):
    for game in MINATAR:
        for seed in (0, 1):
            play(new_run(minatar, "rf-visr", game, seed), regression=1.5, random=1.0)
    found = verdicts(suite_of(minatar))
    assert found["Learned features beat random ones"].found.verdict == "holds"
    much = "Pre-training beats 100 times as many rewarded steps"
    assert found[much].found.verdict == "does not hold"
    assert found["VISR beats a random policy"].games_ahead == 2


def test_claims_beyond_the_paper_get_a_verdict_too(tmp_path: Path):
    for game in MINATAR:
        run = new_run(tmp_path, "visr-plus", game, 0)
        play(run, regression=6.0, random=1.0)
        record = Adapted(game, STEPS, (adapted("relabelled", 9.0),))
        write_json(run.adapted, schema.to_dict(record))
        play(new_run(tmp_path, "nsq-100k", game, 0), trained=2.0)
    (beyond,) = claims.tables(suite_of(tmp_path))
    assert beyond.rows[0].cells[1] == "VISR+, relabelled @100k > NSQ @100k"


def test_a_single_seed_is_not_enough_evidence(tmp_path: Path):
    play(new_run(tmp_path, "visr", MINATAR[0], 0), regression=6.0, random=1.0)
    play(new_run(tmp_path, "nsq-100k", MINATAR[0], 0), trained=2.0, random=1.0)
    found = verdicts(suite_of(tmp_path)).values()
    assert {judged.found.verdict for judged in found} == {"not enough evidence"}


def test_claims_compare_agents_with_equal_steps_if_possible(minatar: Path):
    def compared() -> str:
        table = claims.tables(suite_of(minatar))[0]
        rows = {row.cells[0]: row.cells[1] for row in table.rows}
        return rows["Learned features beat random ones"]

    for seed in (0, 1):
        other = new_run(minatar / "other", "visr", MINATAR[0], seed)
        play(other, regression=99.0, random=1.0)
        other.write_config(configuration.replace(other.config(), num_steps=STEPS // 2))
        play(new_run(minatar, "rf-visr", MINATAR[0], seed), regression=1.5, random=1.0)
    assert compared() == "GPI VISR @100k > GPI RF VISR @100k"
    for seed in (0, 1):
        shorter = RunDir(minatar / "runs" / "rf-visr" / "MinAtar-Breakout-v1" / f"seed-{seed}")
        shorter.write_config(configuration.replace(shorter.config(), num_steps=STEPS // 3))
    assert compared() == "GPI VISR @100k after 3k steps > GPI RF VISR @100k after 1k steps"


def test_grid_runs_have_exact_fractions_of_optimal(tmp_path: Path):
    columns = ["num_steps", "span", "boxes", "boxes_gpi", "goals", "goals_gpi"]
    for seed, boxes in ((0, 0.5), (1, 0.7)):
        run = new_run(tmp_path, "visr", GRID, seed)
        append_rows(run.evaluation, columns, [[STEPS, 0.9, 0.1, boxes, 0.1, 0.3]])
    table = grid.table(grid.evaluated(build.gather(tmp_path).runs))
    (row,) = table.rows
    assert row.cells[:5] == (
        *("GPI VISR, 3k steps, 2 seeds", "0.90 ± 0.00", "–", "0.10 ± 0.00", "0.60 ± 0.14"),
    )
    suite = build.gather(tmp_path).grid
    assert suite is not None
    (found,) = suite.aggregates.values()
    assert found.mean == pytest.approx(100 * (0.6 + 0.3) / 2)  # boxes and goals, by GPI


def test_latex_and_markdown_escape_special_characters():
    table = Table("t", "A & B_1", "50 % | more", ("Name", "x"), (TableRow(("a_b & c|d", "-1.5")),))
    files = table.files()
    assert r"a\_b \& c|d & $-$1.5 \\" in files["t.tex"]
    assert r"A \& B\_1. 50 \% | more" in files["t.tex"]
    assert r"| a\_b \& c\|d | −1.5 |" in files["t.md"]
    assert files["t.csv"] == "Name,x\na_b & c|d,-1.5\n"


def test_pong_is_an_atari_game_and_unknown_games_are_not(tmp_path: Path):
    play(new_run(tmp_path, "visr", ATARI[0], 0), regression=1.0, random=0.0)
    play(new_run(tmp_path, "visr", "CartPole-v1", 0), regression=1.0, random=0.0)
    assert [suite.key for suite in build.gather(tmp_path).suites] == ["atari", "other"]
