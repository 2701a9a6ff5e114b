"""Tasks as values: sums of them, angles between them, and the command line's words for both."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.test_cli import visr
from visr.errors import UserError
from visr.storage.files import read_json
from visr.storage.records.task import Task, TaskPrompt, cosine, mix

EAST, NORTH = np.array([1.0, 0, 0]), np.array([0, 1.0, 0])


def task(w: Any, name: str = "some", env: str = "CartPole-v1", **fields: Any) -> Task:
    known: dict[str, Any] = {
        "r_squared": 0.5,
        "condition_number": 2.0,
        "standard_error": np.full(len(w), 0.1),
        "num_steps": 100,
        "num_rewarded": 10,
    }
    return Task(name, env, np.asarray(w, dtype=np.float64), "by hand", **(known | fields))


# --- mixing


def test_a_mixture_is_the_weighted_sum_at_unit_length():
    mixed = mix([(task(EAST, "east"), 3.0), (task(NORTH, "north"), 4.0)])
    assert np.allclose(mixed.w, [0.6, 0.8, 0])
    assert mixed.name == "3 east + 4 north"
    assert (mixed.method, mixed.env) == ("mixed of 2 tasks", "CartPole-v1")
    assert (mixed.num_steps, mixed.num_rewarded) == (200, 20)
    # errors add like independent ones: sqrt((3 * .1)^2 + (4 * .1)^2) / 5 = .1
    assert np.allclose(mixed.standard_error, 0.1)


def test_only_the_proportions_of_weights_matter_and_minus_means_away_from():
    east, north = task(EAST), task(NORTH)
    once, tenfold = (mix([(east, k), (north, 2 * k)]).w for k in (1.0, 10.0))
    assert np.allclose(once, tenfold)
    assert np.allclose(mix([(east, -2.0)], "away").w, -EAST)
    assert mix([(east, -2.0)], "away").name == "away"
    assert np.allclose(mix([(east, 1.0), (north, 0.0)]).w, EAST)


def test_an_error_too_large_for_a_number_is_infinite_without_a_warning(tmp_path: Path):
    odd = task(EAST, standard_error=np.full(3, 1e308))
    mixed = mix([(odd, 5.0)])
    assert np.isinf(mixed.standard_error).all()
    mixed.save(tmp_path / "mixed.json")
    assert np.isinf(Task.load(tmp_path / "mixed.json").standard_error).all()


def test_rewards_that_are_known_are_mixed_too():
    some, other = (task(EAST, reward=np.array(values)) for values in ([1.0, 0], [0, 1.0]))
    mixed = mix([(some, 2.0), (other, -1.0)])
    assert mixed.reward is not None
    assert mixed.reward.tolist() == [2, -1]
    assert mix([(some, 2.0), (task(NORTH), 1.0)]).reward is None
    longer = task(NORTH, reward=np.ones(3))
    assert mix([(some, 2.0), (longer, 1.0)]).reward is None


def test_an_error_that_is_not_known_stays_unknown_unless_it_has_no_weight():
    unknown = task(NORTH, standard_error=np.full(3, math.inf))
    assert np.isinf(mix([(task(EAST), 1.0), (unknown, 1.0)]).standard_error).all()
    assert np.isfinite(mix([(task(EAST), 1.0), (unknown, 0.0)]).standard_error).all()


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], "nothing to mix"),
        ([(task(EAST), 1.0), (task(-EAST), 1.0)], "cancel each other out"),
        ([(task(EAST), 0.0)], "cancel each other out"),
        ([(task(EAST), 1.0), (task(NORTH, env="Taxi-v4"), 1.0)], "only tasks of one run"),
        ([(task(EAST), 1.0), (task([1.0, 0]), 1.0)], "only tasks of one run"),
        ([(task(EAST), math.nan)], "must be a number"),
        ([(task(EAST), math.inf)], "must be a number"),
        ([(task(EAST), 2e6)], "must be a number"),
    ],
)
def test_what_makes_no_mixture_is_a_sentence(parts: Any, words: str):
    with pytest.raises(UserError, match=words):
        mix(parts)


def test_a_mixture_can_be_saved_and_loaded(tmp_path: Path):
    mixed = mix([(task(EAST), 1.0), (task(NORTH), 1.0)])
    mixed.save(tmp_path / "mixed.json")
    assert np.array_equal(Task.load(tmp_path / "mixed.json").w, mixed.w)


def test_sums_read_as_they_are_written():
    a, b, c = task(EAST, "a"), task(NORTH, "b"), task([0, 0, 1.0], "x0 < 1")
    named = {
        "a - b": a - b,
        "a + b": a + b,
        "0.7 a + 0.3 b": 0.7 * a + 0.3 * b,
        "-a": -a,
        "b - 2 a": b + -2 * a,
        "-a + b": -(a - b),
        "a + b + 0.5 (x0 < 1)": sum([a, b, c / 2]),
        "0.5 a + 0.5 b": (a + b) / 2,
        "both - (x0 < 1)": mix([(a, 0.6), (b, 0.8)], "both") - c,
    }
    assert {name: found.name for name, found in named.items()} == {name: name for name in named}
    assert np.allclose((a - b).w, [0.5**0.5, -(0.5**0.5), 0])
    assert np.allclose(sum([a, b, c]).w, np.full(3, 3**-0.5))  # pyright: ignore
    assert sum([a]) is a
    assert np.allclose((a / 2 + b / 2).w, (a + b).w)


def test_sums_of_other_things_are_refused():
    with pytest.raises(UserError, match="divided by 0"):
        _ = task(EAST, "a") / 0
    with pytest.raises(TypeError):
        _ = 1 + task(EAST, "a")  # pyright: ignore
    with pytest.raises(TypeError):
        _ = task(EAST, "a") / "b"  # pyright: ignore


# --- comparing


def test_a_cosine_says_how_much_two_tasks_have_in_common():
    assert cosine(task(EAST), task(EAST)) == 1
    assert cosine(task(EAST), task(NORTH)) == 0
    assert cosine(task(EAST), task(-EAST)) == -1
    assert cosine(task(EAST), task([0.6, 0.8, 0])) == pytest.approx(0.6)
    with pytest.raises(UserError, match="cannot be compared"):
        cosine(task(EAST), task([1.0, 0]))


# --- visr task


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, w in {"east": EAST, "north": NORTH, "west": -EAST}.items():
        task(w, name).save(tmp_path / f"{name}.json")
    task(EAST, "taxi", "Taxi-v4").save(tmp_path / "taxi.json")
    return tmp_path


def test_mixing_on_the_command_line(files: Path):
    out = files / "new" / "mixed.json"
    parts = (files / "east.json", "0.6", files / "north.json", "-0.8")
    answer = visr("task", "mix", *parts, "--out", out, "--name", "both")
    assert answer.code == 0
    assert "task: both" in answer.out
    for words in ("cosine with east", "+0.600", "cosine with north", "-0.800", str(out)):
        assert words in answer.out
    assert np.allclose(Task.load(out).w, [0.6, -0.8, 0])
    again = visr("task", "mix", *parts, "--out", out, "--name", "both", "--json").json
    assert again == read_json(out) | {"file": str(out)}


def test_comparing_on_the_command_line(files: Path):
    paths = [str(files / f"{name}.json") for name in ("east", "north", "west")]
    answer = visr("task", "compare", *paths)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("-1.000") == 2
    cosines = visr("task", "compare", *paths, "--json").json["cosines"]
    assert [list(cosines[a].values()) for a in paths] == [[1, 0, -1], [0, 1, 0], [-1, 0, 1]]


def test_listing_on_the_command_line(trained: Path, tmp_path: Path):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    assert visr("task", "list", run).err == "No tasks yet; `visr infer` makes one.\n"
    assert visr("task", "list", run, "--json").json == {"tasks": {}}
    visr("infer", run, "--reward", "goal:2,3")
    visr("evaluate", run, "goal-2-3")  # its evaluation is no task
    shown = visr("task", "list", run)
    assert (shown.code, shown.err) == (0, "")
    assert "goal:2,3" in shown.out
    listed = visr("task", "list", run, "--json").json["tasks"]
    assert list(listed) == ["goal-2-3"]
    assert listed["goal-2-3"] == read_json(run / "tasks" / "goal-2-3.json")


def test_names_of_a_runs_tasks_are_mixed_and_compared(trained: Path, tmp_path: Path):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    shutil.rmtree(run / "tasks", ignore_errors=True)
    for name, w in {"east": EAST, "north": NORTH}.items():
        task(w, f"{name} > 0").save(run / "tasks" / f"{name}.json")
    assert visr("task", "mix", run, "east", "1", "north", "-1").code == 0
    mixed = Task.load(run / "tasks" / "east-north.json")
    assert (mixed.name, mixed.is_regressed) == ("east - north", False)
    answer = visr("task", "compare", run, "east", "north", "--json").json
    assert answer["cosines"]["east"] == {"east": 1.0, "north": 0.0}
    refused = visr("task", "mix", run, "east", "1", "west", "1")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "no task 'west'" in refused.err
    assert "(east-north, east, north)" in refused.err


def test_tables_show_r_squared_only_where_a_reward_was_regressed(trained: Path, tmp_path: Path):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    shutil.rmtree(run / "tasks", ignore_errors=True)
    asked = task(EAST, "likes", prompt=TaskPrompt("preferences", "likes"), num_steps=7)
    asked.save(run / "tasks" / "likes.json")
    row = next(line for line in visr("task", "list", run).out.splitlines() if "likes" in line)
    assert row.split()[-3:] == ["7", "answers", "-"]
    assert asked.summary()["answers"] == "7"
    assert "R^2" not in asked.summary()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list",), "takes one run"),
        (("list", "a", "b"), "takes one run"),
        (("list", "nowhere"), "There is no run at nowhere"),
        (("list", "nowhere", "--out", "x.json"), "belong to `visr task mix`"),
        (("mix", "--out", "x.json"), "takes pairs"),
        (("mix", "east.json", "1", "north.json", "--out", "x.json"), "takes pairs"),
        (("mix", "east.json", "1"), "add --out C.json"),
        (("mix", "east.json", "much", "--out", "x.json"), "'much' is not a weight"),
        (("mix", "east.json", "nan", "--out", "x.json"), "must be a number"),
        (("mix", "nobody.json", "1", "--out", "x.json"), "nobody.json"),
        (("mix", "east.json", "1", "west.json", "1", "--out", "x.json"), "cancel each other out"),
        (("mix", "east.json", "1", "taxi.json", "1", "--out", "x.json"), "only tasks of one run"),
        (("mix", "run", "east"), "'east' is not a weight"),
        (("compare", "east.json"), "two or more"),
        (("compare", "east.json", "nobody.json"), "nobody.json"),
        (("compare", "east.json", "north.json", "--name", "x"), "belong to `visr task mix`"),
        (("join", "east.json"), "task --help"),
        ((), "task --help"),
    ],
)
def test_wrong_arguments_end_in_one_sentence(
    files: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
):
    monkeypatch.chdir(files)
    answer = visr("task", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert words in answer.err
    assert not (files / "x.json").exists()


# --- arithmetic


def test_sums_and_multiples_are_mixtures():
    east, north = task(EAST, "east"), task(NORTH, "north")
    assert np.allclose((3 * east + 4 * north).w, [0.6, 0.8, 0])
    assert np.allclose((east - north).w, np.array([1, -1, 0]) / math.sqrt(2))
    assert np.allclose((-east).w, -EAST)
    assert np.allclose(
        (0.5 * east).w, EAST
    )  # a multiple is a weight in sums, not another direction


def test_sums_do_not_depend_on_their_order():
    parts = [0.2 * task(EAST, "a"), 0.7 * task(NORTH, "b"), 0.5 * task([0, 0, 1.0], "c")]
    first, second = (parts[0] + parts[1]) + parts[2], parts[0] + (parts[1] + parts[2])
    assert np.allclose(first.w, second.w)
    assert np.allclose(first.w, np.array([0.2, 0.7, 0.5]) / math.sqrt(0.78))


def test_the_sum_of_expressions_is_asked_for_by_their_sum():
    prompts = [TaskPrompt("expression", text) for text in ("x0 > 0", "x1")]
    a, b = (task(w, "t", prompt=p) for w, p in zip((EAST, NORTH), prompts, strict=True))
    mixed = 0.7 * a + 0.3 * b
    assert mixed.prompt is not None
    assert (mixed.prompt.kind, mixed.prompt.text) == ("expression", "0.7 * (x0 > 0) + 0.3 * (x1)")
    assert (a + task(NORTH)).prompt is None


def test_a_direction_alone_is_a_task():
    direction = Task(w=np.array([3.0, 4.0, 0]))
    assert np.allclose(direction.w, [0.6, 0.8, 0])
    direction.require_fit("CartPole-v1", 3)
    with pytest.raises(UserError, match="3 features"):
        direction.require_fit("CartPole-v1", 4)
    for w in ([0.0, 0.0], [math.nan, 1.0], "ab", [[1.0]]):
        with pytest.raises(UserError):
            Task(w=w)  # pyright: ignore[reportArgumentType]


def test_a_prompt_survives_saving(tmp_path: Path):
    data = {"observation": np.array([1.5]), "columns": np.array([0.0]), "width": np.array([0.5])}
    saved = task(EAST, "goal", prompt=TaskPrompt("goal", "x0=1.5", data))
    saved.save(tmp_path / "a.json")
    found = Task.load(tmp_path / "a.json").prompt
    assert found is not None
    assert (found.kind, found.text, found.data["observation"].tolist()) == ("goal", "x0=1.5", [1.5])


def test_summaries_are_short_and_escape_html():
    shown = task(EAST, "<b>east</b>")
    assert repr(shown).startswith("<Task '<b>east</b>', of CartPole-v1")
    assert len(repr(shown)) < 200
    assert "<b>" not in shown._repr_html_()
