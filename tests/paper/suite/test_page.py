"""The report of many runs as a whole: its files, its page and what it leaves out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paper.suite.made_up_runs import ATARI, MINATAR, STEPS, new_run, play, table_of
from tests.report.made_up_runs import HOSTILE, MARKUP, Reader, png_chunks
from tests.report.made_up_runs import train as train_on_grid
from tests.test_cli import visr
from visr import report
from visr.config import GRID
from visr.errors import UserError
from visr.paper.suite import build
from visr.storage.files import write_json
from visr.storage.tables import append_rows


def every_file(root: Path) -> dict[Path, bytes]:
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_unfinished_and_damaged_runs_are_left_out_with_a_reason(atari: Path):
    stopped = new_run(atari, "visr", ATARI[0], 7)
    append_rows(stopped.metrics, ["num_steps", "psi_loss"], [[1000, 1.0]])
    not_scored = new_run(atari, "visr", ATARI[0], 8)
    append_rows(not_scored.metrics, ["num_steps", "psi_loss"], [[STEPS, 1.0]])
    new_run(atari, "visr", ATARI[0], 9).phase_two.write_text('{"format": 1')
    new_run(atari, "visr", ATARI[0], 10).config_file.write_text("{}")
    new_run(atari, "visr", ATARI[0], 11).metrics.write_text("num_steps\nmany\n")
    new_run(atari, "visr", ATARI[0], 12).online.write_text("num_steps,mean_return\n1,2,3\n")
    summary = report.write(atari)
    reasons = {name.rsplit("-", 1)[1]: words for name, words in summary["left_out"].items()}
    assert "stopped at 1,000 of 3,000 steps" in reasons["7"]
    assert "not scored" in reasons["8"]
    assert "phase_two.json is damaged" in reasons["9"]
    assert "config.json" in reasons["10"]
    assert "metrics.csv is damaged" in reasons["11"]
    assert "online.csv" in reasons["12"]
    assert summary["num_counted"] == 8
    words = Reader(Path(summary["page"]).read_text()).words
    assert all(sentence in words for sentence in summary["left_out"].values())


def test_the_page_begins_with_the_highest_means_of_agents_that_played_every_game(minatar: Path):
    new_run(minatar, "nsq-1m", MINATAR[0], 0)
    play(new_run(minatar, "nsq-1m", MINATAR[0], 1), trained=99.0, random=1.0)  # one game only
    words = Reader(Path(report.write(minatar)["page"]).read_text()).sentences
    # VISR has 100 (6 - 1) / (11 - 1) = 50 everywhere, search 100 (4 - 1) / 10 = 30
    found = re.search(r"Highest interquartile means over 2 games: (.*?)\. 0 is", words)
    assert found is not None
    names = [part.split(" @")[0] for part in found[1].split("; ")]
    assert names == ["NSQ", "GPI VISR", "GPI VISR by search"]
    assert "50.00" in found[1]


def test_every_figure_is_a_png_and_a_csv(atari: Path):
    before = build.summary(build.gather(atari))
    figures = Path(report.write(atari)["page"]).parent / "figures"
    names = {path.stem for path in figures.iterdir()}
    assert names == {
        *("atari_figure_2a", "atari_figure_2b", "atari_figure_2c", "atari_intervals"),
        *("atari_profiles", "atari_learning_curves"),
    }
    for name in names:
        assert png_chunks((figures / f"{name}.png").read_bytes())[0] == b"IHDR"
        rows = table_of(figures / f"{name}.csv")
        assert rows
        assert None not in rows[0]
    assert build.summary(build.gather(atari)) == before  # the report inside is not read as a run


def test_a_grid_report_shows_features_rewards_and_values(tmp_path: Path):
    train_on_grid(new_run(tmp_path, "visr", GRID, 0, height=4, width=6, num_features=3))
    out = Path(report.write(tmp_path)["page"]).parent
    figures = {path.stem for path in (out / "figures").glob("*.png")}
    assert figures == {"grid_intervals", "grid_curves", "features", "rewards", "values"}
    assert (out / "tables/grid.md").exists()


def test_the_page_loads_nothing_and_escapes_everything(atari: Path):
    run = new_run(atari, "visr", ATARI[0], 5)
    play(run, regression=1.0, random=0.0)
    odd = f"{MARKUP} env \ud800 \x1b 目标"
    content = json.loads(run.config_file.read_text())
    content["config"]["agent"]["algorithm"] = HOSTILE
    write_json(run.config_file, content)
    for file in (run.config_file, run.phase_two):
        file.write_text(file.read_text().replace(ATARI[0], json.dumps(odd)[1:-1]))
    page = Path(report.write(atari)["page"]).read_text()
    reader = Reader(page)
    assert "seed-5" in page
    assert "script" not in {tag for tag, _ in reader.elements}
    for _, attributes in reader.elements:
        for name in ("src", "srcset", "href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:image/png;base64,", "#"))
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {a["href"] for tag, a in reader.elements if tag == "a"}
    assert targets <= {f"#{each}" for each in ids}


def test_the_results_in_the_repository_can_be_reported_to_the_same_bytes(tmp_path: Path):
    results = Path(__file__).parents[3] / "results"
    summary = report.write(results, tmp_path / "a")
    left_out = summary["left_out"]
    assert summary["num_runs"] == summary["num_counted"] + len(left_out)
    stopped, *short = left_out
    assert stopped == "atari/visr/ALE-Pong-v5/seed-0"
    assert all(name.startswith("minatar-untrained/") for name in short)
    assert "2,720 steps, less than 1 %" in left_out[short[0]]
    report.write(results, tmp_path / "b")
    once, again = every_file(tmp_path / "a"), every_file(tmp_path / "b")
    assert len(once) > 40
    assert once == again


def test_a_report_does_not_import_torch(atari: Path):
    code = (
        "import sys; from visr.cli import main; main(['report', sys.argv[1]]); "
        "sys.exit(int(any(m in sys.modules for m in ('torch', 'gymnasium'))))"
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


def test_a_directory_without_runs_is_refused_in_one_sentence(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    answer = visr("report", str(tmp_path / "empty"))
    assert answer.code == 2
    assert "holds no run" in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "empty/report").exists()


def test_only_damaged_runs_are_refused_in_one_sentence(tmp_path: Path):
    (new_run(tmp_path, "visr", ATARI[0], 0).config_file).write_text("{}")
    with pytest.raises(UserError, match="the first of 1 damaged runs"):
        report.write(tmp_path)
