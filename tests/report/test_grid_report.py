"""The report of a run in a grid world."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import safetensors.numpy

from tests.report.conftest import DPI
from tests.report.made_up_runs import (
    HOSTILE,
    Reader,
    contents,
    evaluation_of,
    game_run,
    infer,
    new_run,
    png_chunks,
    read,
    sentences,
    size_in_inches,
    snapshot,
    train,
)  # fmt: skip
from visr import report
from visr.errors import UserError
from visr.report import commands, curves, maps, page
from visr.report import read as reading
from visr.storage.files import write_json
from visr.storage.records.task import Task, TaskPrompt
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows

FIGURES = ("features.png", "rewards.png", "values.png", "training.png", "optimal.png")


def grid_run(path: Path) -> RunDir:
    """A grid run with every file that the report shows."""
    run = new_run(path)
    train(run)
    infer(run)
    return run


@dataclass(frozen=True)
class Written:
    """A report on disk; tests must not change it."""

    run: RunDir
    summary: dict[str, Any]
    source: str
    page: Reader


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    run = grid_run(tmp_path_factory.mktemp("grid") / "run")
    summary = report.write(run.path)
    return Written(run, summary, read(summary), Reader(read(summary)))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return grid_run(tmp_path / "run")


def test_a_complete_run_gives_every_figure_and_a_json_summary(written: Written):
    run, summary = written.run, written.summary
    assert set(contents(run.report)) == {*FIGURES, "policy_boxes-7.png", "index.html"}
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["page"] == str(run.report / "index.html")
    assert (summary["run"], summary["num_steps"]) == (str(run.path), 3000)
    assert summary["fraction_of_optimal"]["goals_planned"] == 1.0
    assert summary["tasks"] == [
        {
            "name": "boxes:7",
            "file": "boxes-7",
            "fraction_of_optimal": 0.625,
            "r_squared": 0.75,
            "asked_as": "least squares",
            "asked_returns": None,
        }
    ]


def test_png_files_have_no_date_and_no_version(written: Written):
    for path in written.run.report.glob("*.png"):
        assert set(png_chunks(path.read_bytes())) == {b"IHDR", b"pHYs", b"IDAT", b"IEND"}


def test_the_page_shows_the_numbers_and_every_image_has_an_alt_text(written: Written):
    images = [attributes for tag, attributes in written.page.elements if tag == "img"]
    assert len(images) == len(FIGURES) + 1
    assert all(attributes["alt"] for attributes in images)
    for words in ("3,000 steps", "3 features", "4 × 6 cells", "0.62 of optimal", "1,234 steps/s"):
        assert words in written.page.sentences


def test_the_page_loads_nothing(written: Written):
    for tag, attributes in written.page.elements:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base"}
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:image/png;base64,"))
    for address in ("http://", "https://", "@import", "url("):
        assert address not in written.source


def test_equal_runs_give_equal_bytes_whatever_the_settings_of_matplotlib(
    written: Written, tmp_path: Path
):
    user: Any = {"font.size": 30, "axes.facecolor": "red", "savefig.bbox": "tight"}
    with matplotlib.rc_context(user):
        report.write(written.run.path, tmp_path / "again")
        assert matplotlib.rcParams["font.size"] == 30
    assert contents(tmp_path / "again") == contents(written.run.report)


def test_out_leaves_the_run_as_it_is(tmp_path: Path):
    run = new_run(tmp_path / "run")
    report.write(run.path, tmp_path / "out")
    assert not run.report.exists()


def test_a_hostile_task_name_stays_text(run: RunDir):
    run.grid_snapshot.unlink()
    run.task("boxes-7").unlink()
    evaluation_of(run.task("boxes-7")).unlink()
    infer(run, name=HOSTILE, file="x")
    source = read(report.write(run.path))
    page = Reader(source)
    assert not {tag for tag, _ in page.elements} & {"script", "x"}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.words.count("<script>alert(1)</script>") >= 3  # heading, table, command
    assert not any(invisible in source for invisible in ("\u202e", "\x00", "\x1b"))
    assert source.count("<title>") == source.count("</title>") == 1


def test_file_names_of_tasks_are_safe_and_distinct(run: RunDir):
    run.grid_snapshot.unlink()
    for file in ("Boxes 7", "boxes_7", "<b>", "..", "ünï", "a" * 120):
        infer(run, file=file)
    report.write(run.path)
    names = sorted(path.name for path in run.report.glob("policy_*.png"))
    assert len(names) == 7
    assert all(re.fullmatch(r"policy_[a-z0-9-]{1,64}\.png", name) for name in names)
    assert {"policy_boxes-7.png", "policy_boxes-7-2.png", "policy_boxes-7-3.png"} <= set(names)


def test_evaluated_tasks_come_first_and_equal_names_are_told_apart(run: RunDir):
    infer(run, "row > 4", "a", evaluated=False)
    infer(run, "row > 4", "b-refined")
    words = Reader(read(report.write(run.path))).sentences
    first, second = "row > 4 (b-refined)", "row > 4 (a)"
    assert words.index(first) < words.index(second)


def test_the_page_of_a_new_run_names_what_is_missing_and_the_command_that_makes_it(tmp_path: Path):
    run = new_run(tmp_path / "a run")
    summary = report.write(run.path)
    words = Reader(read(summary)).sentences
    assert summary["num_steps"] == 0
    assert summary["fraction_of_optimal"] == {}
    assert [path.name for path in run.report.iterdir()] == ["index.html"]
    for missing in ("exact evaluation", "snapshot of φ and ψ", "training curves"):
        resume = f"visr pretrain --resume '{run.path}'"
        assert f"No {missing} yet. Continue training with {resume}" in words
    assert (
        f"No task has been inferred yet. Infer one with visr infer '{run.path}' --reward boxes:7"
        in words
    )


def test_a_finished_run_without_tables_names_the_command_that_trains_it_again(tmp_path: Path):
    run = new_run(tmp_path / "run")
    append_rows(run.metrics, ["num_steps", "psi_loss"], [[3000, 0.5]])
    words = sentences(run)
    assert (
        "No exact evaluation: the file is missing from the run. Train again with visr pre" in words
    )


def test_a_task_without_an_evaluation_shows_its_reward_and_the_command(run: RunDir):
    run.grid_snapshot.unlink()
    infer(run, name="goal:1,1", file="goal-1-1", evaluated=False)
    summary = report.write(run.path)
    assert f"visr evaluate {run.path} goal-1-1" in Reader(read(summary)).sentences
    assert (run.report / "policy_goal-1-1.png").exists()
    assert [task["fraction_of_optimal"] for task in summary["tasks"]] == [0.625, None]


def test_a_run_that_diverged_gets_a_report(run: RunDir):
    arrays = snapshot(run.config())
    arrays["phi"][:] = arrays["values"][:] = np.nan
    arrays["rewards"][0, 0] = np.inf
    run.grid_snapshot.write_bytes(safetensors.numpy.save(arrays))
    columns = run.metrics.read_text().splitlines()[0].split(",")
    append_rows(run.metrics, columns, [[4000, 1, "nan", "inf", "-inf"]])
    columns = run.evaluation.read_text().splitlines()[0].split(",")
    append_rows(run.evaluation, columns, [[4000, *["nan"] * 8]])
    summary = report.write(run.path)
    assert set(summary["fraction_of_optimal"].values()) == {None}
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize(
    ("height", "width", "d"), [(1, 1, 2), (1, 40, 5), (30, 2, 11), (70, 50, 50), (3, 3, 64)]
)
def test_any_grid_and_any_number_of_features_fit_on_the_page(
    tmp_path: Path, height: int, width: int, d: int
):
    run = new_run(tmp_path / "run", height=height, width=width, num_features=d)
    train(run, walls=width > 1, num_tasks=49 if height == 30 else 8)
    infer(run)
    report.write(run.path)
    for path in run.report.glob("*.png"):
        across, down = size_in_inches(path, DPI)
        assert 1.8 <= across <= 6.5
        assert 0.7 <= down <= 16.7


def test_a_grid_too_small_for_boxes_has_two_panels(tmp_path: Path):
    run = new_run(tmp_path / "run", height=3, width=3)
    append_rows(run.evaluation, ["num_steps", "span", "goals"], [[0, 0.0, 0.1], [3000, 0.5, 0.6]])
    words = sentences(run)
    assert "Goal cells" in words
    assert "Two boxes" not in words


def test_without_a_run_there_is_no_report(tmp_path: Path):
    with pytest.raises(UserError, match="There is no run"):
        report.write(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path):
    run = new_run(tmp_path / "run")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="Cannot write"):
        report.write(run.path, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_report_imports_neither_torch_nor_an_environment_nor_pyplot(
    written: Written, tmp_path: Path
):
    code = (
        "import sys, pathlib, visr.report\n"
        "for run in sys.argv[1:]: visr.report.write(pathlib.Path(run), pathlib.Path(run) / 'again')\n"
        "print({'torch', 'gymnasium', 'ale_py', 'scipy', 'matplotlib.pyplot'} & set(sys.modules))"
    )
    runs = [str(written.run.path), str(game_run(tmp_path / "game").path)]
    done = subprocess.run(
        [sys.executable, "-c", code, *runs], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_constants_that_the_report_repeats_equal_those_of_other_modules():
    from visr.envs.grid.dynamic_programming import GAMMA
    from visr.envs.grid.env import NUM_ACTIONS, GridWorld
    from visr.inference.grid_rewards import FAMILY_SIZE

    assert (page.GAMMA, page.FAMILY_SIZE) == (GAMMA, FAMILY_SIZE)
    assert len(maps.MOVES) == NUM_ACTIONS
    centre = 4  # of 3 x 3 cells
    reached = [centre + 3 * down + right for down, right in maps.MOVES]
    assert reached == GridWorld(3, 3).transitions[centre].tolist()


def test_the_command_on_the_page_makes_the_same_run(tmp_path: Path):
    from visr.commands import options, pretrain

    fields = {"gpi": False, "hidden_sizes": (7, 8, 9), "gamma": 0.5, "layout": "four-rooms"}
    run = new_run(tmp_path / "a run", height=9, width=9, centred=True, ridge=1e-3, **fields)
    words = shlex.split(commands.pretrain(reading.run_data(run.path)))
    assert words[:2] == ["visr", "pretrain"]
    chosen = options.parse(pretrain.Options, words[2:], "pretrain", pretrain._defaults(words[2:]))
    assert pretrain._config(chosen) == run.config()
    assert chosen.out == str(run.path)


def test_labels_that_would_overlap_move_apart_in_order():
    # 0.50 and 0.52 are too close; 0.99 and 1.00 are pushed down from the top
    placed = curves._spread([0.52, 0.5, 1.0, 0.99], gap=0.1, top=1.0)
    assert placed == pytest.approx([0.6, 0.5, 1.0, 0.9])


def test_five_training_curves_are_drawn_in_rows_of_three():
    steps = np.array([1.0, 2.0])
    names = ("psi_loss", "psi_spread", "intrinsic_reward", "feature_concentration")
    metrics = {"num_steps": steps, **dict.fromkeys(names, steps)}
    figure = curves.training(metrics, {"num_steps": steps, "steps_per_second": steps})
    places = [axes.get_subplotspec() for axes in figure.axes]
    assert [(p.rowspan.start, p.colspan.start) for p in places if p] == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1)
    ]  # fmt: skip


def test_a_task_without_a_true_reward_is_drawn_and_valued_under_phi_w(tmp_path: Path):
    run = new_run(tmp_path / "run")
    infer(run)
    task = Task.load(run.task("boxes-7"))
    shown = dataclasses.replace(
        task, reward=None, prompt=TaskPrompt("demonstration", "3 watched steps")
    )
    write_json(run.task("boxes-7"), shown.to_dict())  # the evaluation stays
    words = Reader(read(report.write(run.path))).sentences
    assert "a demonstration (3 watched steps)" in words
    assert "of optimal under φ·w, as no true reward is known" in words
    assert "policy_boxes-7.png" in contents(run.report)
    lines = commands.made(reading.run_data(run.path))
    assert not any("infer" in line for line in lines)
