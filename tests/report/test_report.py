"""Reports of small made-up runs: nothing is trained here, files are all a report knows."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from visr import config as configuration
from visr import report
from visr.config import RunConfig
from visr.errors import UserError
from visr.report import commands as recipe
from visr.report import curves, figures, header, maps
from visr.report import read as load
from visr.storage.files import read_json, write_json
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir, evaluation_of
from visr.storage.tables import append_rows

FIGURES = ("features.png", "rewards.png", "values.png", "training.png", "optimal.png")
MARKUP = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
HOSTILE = MARKUP + "$\\frac{$ \ud800 \u202e \x00 \x1b 目标\n"


def new_run(path: Path, **fields: Any) -> RunDir:
    """A run that has only been asked for."""
    fields = {"height": 4, "width": 6, "num_steps": 3000, "num_features": 3, **fields}
    return RunDir.create(path, configuration.replace(RunConfig(), **fields))


def train(run: RunDir, walls: bool = False) -> None:
    """What three rows of training leave behind."""
    steps = [1000, 2000, 3000]
    metrics = ["num_steps", "num_updates", "psi_loss", "intrinsic_reward", "feature_concentration"]
    append_rows(run.metrics, metrics, [[s, s / 10, 10.0 ** -(s / 1000), 0.5, 0.1] for s in steps])
    timing = ["num_steps", "seconds", "steps_per_second"]
    append_rows(run.timing, timing, [[s, 1.0, 1234] for s in steps])
    families = ["span", "span_gpi", "boxes", "boxes_gpi", "boxes_planned"]
    families += ["goals", "goals_gpi", "goals_planned"]
    rows = [[s, *np.linspace(-0.2, s / 3000, len(families))] for s in [0, *steps]]
    append_rows(run.evaluation, ["num_steps", *families], rows)
    run.portrait.write_bytes(safetensors.numpy.save(portrait(run.config(), walls)))


def portrait(config: RunConfig, walls: bool = False) -> dict[str, np.ndarray]:
    random, grid = np.random.default_rng(0), config.grid
    phi = random.normal(size=(grid.height * grid.width, config.agent.num_features))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    free = np.ones((grid.height, grid.width), dtype=np.bool_)
    free[0, -1] = not walls
    rewards = random.normal(size=(49, config.agent.num_features)) @ phi.T
    return {"phi": phi, "free": free, "rewards": rewards, "values": 10 + rewards.cumsum(axis=1)}


def ask(run: RunDir, name: str = "boxes:7", file: str = "boxes-7", evaluated: bool = True) -> Path:
    """What `visr infer` and `visr evaluate` leave behind."""
    grid = run.config().grid
    num_states = grid.height * grid.width
    task = Task(
        name=name, env="visr/Grid-v0", w=np.array([0.6, 0.8, 0.0]), method="least squares",
        r_squared=0.75, condition_number=2.0, standard_error=np.zeros(3), num_steps=num_states,
        num_rewarded=2, reward=np.arange(num_states, dtype=np.float64) % 3,
    )  # fmt: skip
    path = run.task(file)
    task.save(path)
    if evaluated:
        write_json(evaluation_of(path), evaluation(num_states) | {"task": name})
    return path


def evaluation(num_states: int) -> dict[str, Any]:
    return {
        "fraction_of_optimal": 0.625, "value": 3.5, "value_random": 1.0, "value_optimal": 5.0,
        "gamma": 0.95, "gpi": True, "policy": [s % 4 for s in range(num_states)],
        "values": [s / 2 for s in range(num_states)], "represented_reward": [0.25] * num_states,
    }  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = new_run(tmp_path / "run")
    train(run)
    ask(run)
    return run


def read(summary: dict[str, Any]) -> str:
    return Path(summary["page"]).read_text(encoding="utf-8")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class Reader(HTMLParser):
    """Every element of a page with its attributes, and all its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def png_chunks(content: bytes) -> list[bytes]:
    """The kinds of a PNG's chunks, each checked against its own sum."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    kinds, at = [], 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        body = content[at + 4 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            body
        )
        kinds.append(body[:4])
        at += 12 + length
    return kinds


def test_a_full_run_gives_every_figure_and_the_headline_numbers(run: RunDir):
    summary = report.write(run.path, None)
    files = contents(run.report)
    assert set(files) == {*FIGURES, "policy_boxes-7.png", "index.html"}
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["page"] == str(run.report / "index.html")
    assert (summary["run"], summary["num_steps"]) == (str(run.path), 3000)
    assert summary["fraction_of_optimal"]["goals_planned"] == 1.0
    assert summary["tasks"] == [
        {"name": "boxes:7", "file": "boxes-7", "fraction_of_optimal": 0.625, "r_squared": 0.75}
    ]


def test_figures_are_whole_pngs_without_a_date_or_a_version(run: RunDir):
    report.write(run.path, None)
    for path in run.report.glob("*.png"):
        assert set(png_chunks(path.read_bytes())) == {b"IHDR", b"pHYs", b"IDAT", b"IEND"}


def test_the_page_tells_the_numbers_and_describes_every_picture(run: RunDir):
    page = Reader(read(report.write(run.path, None)))
    images = [attributes for tag, attributes in page.elements if tag == "img"]
    assert len(images) == len(FIGURES) + 1
    assert all(attributes["alt"] for attributes in images)
    for words in ("3,000 steps", "3 features", "4 × 6 cells", "0.62 of optimal", "1,234 steps/s"):
        assert words in page.words


def test_the_page_loads_nothing(run: RunDir):
    source = read(report.write(run.path, None))
    for tag, attributes in Reader(source).elements:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base"}
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:image/png;base64,"))
    assert "http://" not in source
    assert "https://" not in source
    assert "@import" not in source
    assert "url(" not in source


def test_the_same_run_gives_the_same_bytes(run: RunDir, tmp_path: Path):
    report.write(run.path, tmp_path / "one")
    report.write(run.path, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert not run.report.exists()


def test_a_users_matplotlib_settings_change_nothing(run: RunDir, tmp_path: Path):
    import matplotlib

    report.write(run.path, tmp_path / "one")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.bbox": "tight"}):
        report.write(run.path, tmp_path / "two")
        assert matplotlib.rcParams["font.size"] == 30
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_hostile_task_name_stays_text(run: RunDir):
    run.task("boxes-7").unlink()
    evaluation_of(run.task("boxes-7")).unlink()
    ask(run, name=HOSTILE, file="x")
    source = read(report.write(run.path, None))
    page = Reader(source)
    assert not {tag for tag, _ in page.elements} & {"script", "x"}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert (
        page.words.count("<script>alert(1)</script>") >= 3
    )  # heading, table, command: all as text
    assert not any(invisible in source for invisible in ("\u202e", "\x00", "\x1b"))
    assert source.count("<title>") == source.count("</title>") == 1


def test_file_names_of_tasks_are_safe_and_distinct(run: RunDir):
    for file in ("Boxes 7", "boxes_7", "<b>", "..", "ünï", "a" * 120):
        ask(run, file=file)
    report.write(run.path, None)
    names = sorted(path.name for path in run.report.glob("policy_*.png"))
    assert len(names) == 7
    assert all(re.fullmatch(r"policy_[a-z0-9-]{1,64}\.png", name) for name in names)
    assert {"policy_boxes-7.png", "policy_boxes-7-2.png", "policy_boxes-7-3.png"} <= set(names)


def test_a_run_that_has_just_begun_says_what_is_missing_and_how_to_get_it(tmp_path: Path):
    run = new_run(tmp_path / "a run")
    summary = report.write(run.path, None)
    words = Reader(read(summary)).words
    assert summary["num_steps"] == 0
    assert summary["fraction_of_optimal"] == {}
    assert [path.name for path in run.report.iterdir()] == ["index.html"]
    for what in ("exact evaluation", "portrait", "training curves", "No task"):
        assert what in words
    assert f"visr pretrain --resume '{run.path}'" in words
    assert f"visr infer '{run.path}' --reward boxes:7" in words


def test_another_environment_is_told_that_maps_are_for_grids(tmp_path: Path):
    run = new_run(tmp_path / "run", env="FrozenLake-v1")
    append_rows(run.metrics, ["num_steps", "psi_loss"], [[1000, 1.0], [3000, 0.5]])
    words = Reader(read(report.write(run.path, None))).words
    assert "grid worlds only, and this run plays FrozenLake-v1" in words
    assert (run.report / "training.png").exists()


def test_a_task_without_an_evaluation_shows_its_reward_and_names_the_command(run: RunDir):
    ask(run, name="goal:1,1", file="goal-1-1", evaluated=False)
    summary = report.write(run.path, None)
    assert f"visr evaluate {run.path} goal-1-1" in Reader(read(summary)).words
    assert (run.report / "policy_goal-1-1.png").exists()
    assert [task["fraction_of_optimal"] for task in summary["tasks"]] == [0.625, None]


def test_a_run_that_diverged_still_gets_its_report(run: RunDir):
    arrays = portrait(run.config())
    arrays["phi"][:] = arrays["values"][:] = np.nan
    arrays["rewards"][0, 0] = np.inf
    run.portrait.write_bytes(safetensors.numpy.save(arrays))
    columns = run.metrics.read_text().splitlines()[0].split(",")
    append_rows(run.metrics, columns, [[4000, 1, "nan", "inf", "-inf"]])
    columns = run.evaluation.read_text().splitlines()[0].split(",")
    append_rows(run.evaluation, columns, [[4000, *["nan"] * 8]])
    summary = report.write(run.path, None)
    assert set(summary["fraction_of_optimal"].values()) == {None}
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize(
    ("height", "width", "d"), [(1, 1, 2), (1, 40, 5), (30, 2, 11), (70, 50, 50), (3, 3, 64)]
)
def test_any_grid_and_any_number_of_features_can_be_drawn(
    tmp_path: Path, height: int, width: int, d: int
):
    run = new_run(tmp_path / "run", height=height, width=width, num_features=d)
    train(run, walls=width > 1)
    ask(run)
    report.write(run.path, None)
    for path in run.report.glob("*.png"):
        across, down = struct.unpack(">II", path.read_bytes()[16:24])
        assert 400 <= across <= 1400
        assert 150 <= down <= 3600


def test_a_grid_too_small_for_boxes_has_two_panels(tmp_path: Path):
    run = new_run(tmp_path / "run", height=3, width=3)
    append_rows(run.evaluation, ["num_steps", "span", "goals"], [[0, 0.0, 0.1], [3000, 0.5, 0.6]])
    page = Reader(read(report.write(run.path, None)))
    assert "Goal cells" in page.words
    assert "Two boxes" not in page.words


def damage_portrait(run: RunDir) -> None:
    run.portrait.write_bytes(run.portrait.read_bytes()[:-100])


def empty_portrait(run: RunDir) -> None:
    run.portrait.write_bytes(b"")


def portrait_of_another_grid(run: RunDir) -> None:
    other = configuration.replace(run.config(), height=5)
    run.portrait.write_bytes(safetensors.numpy.save(portrait(other)))


def portrait_without_values(run: RunDir) -> None:
    arrays = portrait(run.config())
    run.portrait.write_bytes(safetensors.numpy.save({"phi": arrays["phi"]}))


def damage_metrics(run: RunDir) -> None:
    run.metrics.write_text("num_steps,psi_loss\n1,what\n")


def binary_metrics(run: RunDir) -> None:
    run.metrics.write_bytes(b"\xff\xfe\x00\n\x9f\n")


def metrics_without_steps(run: RunDir) -> None:
    run.metrics.write_text("psi_loss\n1\n")


def damage_task(run: RunDir) -> None:
    run.task("boxes-7").write_text("{")


def endless_task(run: RunDir) -> None:
    path = run.task("boxes-7")
    path.write_text(json.dumps(read_json(path) | {"num_steps": float("inf")}))


def task_of_another_grid(run: RunDir) -> None:
    path = run.task("boxes-7")
    path.write_text(json.dumps(read_json(path) | {"reward": [1.0, 0.0]}))


def evaluation_with_an_unknown_action(run: RunDir) -> None:
    content = evaluation(24)
    content["policy"][3] = 4
    write_json(evaluation_of(run.task("boxes-7")), content)


def evaluation_of_another_grid(run: RunDir) -> None:
    write_json(evaluation_of(run.task("boxes-7")), evaluation(25))


def evaluation_that_is_a_list(run: RunDir) -> None:
    write_json(evaluation_of(run.task("boxes-7")), [1, 2])


def damage_config(run: RunDir) -> None:
    run.config_file.write_text("{}")


@pytest.mark.parametrize(
    "damage",
    [
        damage_portrait, empty_portrait, portrait_of_another_grid, portrait_without_values,
        damage_metrics, binary_metrics, metrics_without_steps, damage_task, endless_task,
        task_of_another_grid, evaluation_with_an_unknown_action, evaluation_of_another_grid,
        evaluation_that_is_a_list, damage_config,
    ],
)  # fmt: skip
def test_a_damaged_file_is_one_sentence_and_an_earlier_report_stays(run: RunDir, damage: Any):
    report.write(run.path, None)
    before = contents(run.report)
    damage(run)
    with pytest.raises(UserError, match=r"[a-z0-9-]+\.(csv|json|safetensors)") as error:
        report.write(run.path, None)
    assert "\n" not in str(error.value)
    assert contents(run.report) == before


def test_no_run_no_report(tmp_path: Path):
    with pytest.raises(UserError, match="There is no run"):
        report.write(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(run: RunDir, tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="Cannot write"):
        report.write(run.path, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_report_needs_neither_torch_nor_gymnasium_nor_pyplot(run: RunDir):
    code = (
        "import sys, pathlib, visr.report; visr.report.write(pathlib.Path(sys.argv[1]), None);"
        "print({'torch', 'gymnasium', 'matplotlib.pyplot'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run.path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_what_the_report_repeats_of_other_rooms_is_still_true():
    from visr.envs.grid.dynamic_programming import GAMMA
    from visr.envs.grid.env import NUM_ACTIONS, GridWorld
    from visr.evaluation import grid_snapshot as portraits
    from visr.inference.rewards import FAMILY_SIZE

    assert (header.GAMMA, header.FAMILY_SIZE) == (GAMMA, FAMILY_SIZE)

    assert load.NUM_ACTIONS == NUM_ACTIONS == len(maps.MOVES)
    assert figures.NUM_POLICIES == portraits.NUM_POLICIES
    centre = 4  # of 3 x 3 cells
    reached = [centre + 3 * down + right for down, right in maps.MOVES]
    assert reached == GridWorld(3, 3).transitions[centre].tolist()


def test_the_command_on_the_page_makes_the_same_run(tmp_path: Path):
    import shlex

    from visr.commands import options, pretrain

    fields = {"gpi": False, "hidden_sizes": (7, 8, 9), "gamma": 0.5, "layout": "four-rooms"}
    run = new_run(tmp_path / "a run", height=9, width=9, centred=True, ridge=1e-3, **fields)
    words = shlex.split(recipe.pretrain(load.record(run.path)))
    assert words[:2] == ["visr", "pretrain"]
    chosen = options.parse(pretrain.Options, words[2:], "pretrain", pretrain._defaults(words[2:]))
    assert pretrain._config(chosen) == run.config()
    assert chosen.out == str(run.path)


def test_labels_move_apart_and_keep_their_order():
    # 0.50 and 0.52 want the same place; 0.99 and 1.00 are pushed down from the top
    placed = curves._spread([0.52, 0.5, 1.0, 0.99], gap=0.1, top=1.0)
    assert placed == pytest.approx([0.6, 0.5, 1.0, 0.9])
