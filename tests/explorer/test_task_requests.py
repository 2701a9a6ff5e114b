"""Every way to choose a task gives one, and Python that gives the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr
from visr import api, mix
from visr.errors import UserError
from visr.explorer.messages import RequestFields
from visr.explorer.task_requests import RequestedTask, TaskRequests
from visr.explorer.watched_episode import Watched
from visr.inference import demonstration
from visr.storage.records.task import Task


@pytest.fixture
def requests(run_path: Path) -> TaskRequests:
    return TaskRequests(api.load(run_path))


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """A world of vectors with names, briefly trained."""
    out = tmp_path_factory.mktemp("cart") / "run"
    tiny: dict[str, Any] = {
        "num_envs": 8,
        "batch_size": 4,
        "num_rewarded_envs": 0,
        "recorded_steps": 2_000,
    }
    return visr.pretrain("CartPole-v1", out=out, num_steps=2_000, **tiny)


def performed(python: str) -> dict[str, Any]:
    """What the copied program leaves behind."""
    scope: dict[str, Any] = {}
    exec(compile(python, "copied", "exec"), scope)
    return scope


def painted() -> list[float]:
    reward = np.zeros((10, 10))
    reward[2:5, 6:9], reward[0, 0], reward[9, 1:4] = 1, -1, 0.5
    return reward.ravel().tolist()


@pytest.mark.parametrize(
    "content",
    [
        {"kind": "paint", "reward": painted()},
        {"kind": "random", "seed": 7},
        {"kind": "expression", "text": "row > 5 and col < 3"},
        {"kind": "expression", "text": "boxes:7"},
        {"kind": "direction", "w": [1, 2, 3, -4, 5]},
    ],
    ids=lambda content: content["kind"],
)
@pytest.mark.parametrize("gpi", ["true", "false"])
def test_copied_python_makes_the_same_task(
    requests: TaskRequests, content: dict[str, Any], gpi: str
):
    requested = requests.infer(RequestFields(content))
    left = performed(requested.to_dict(requests.run)["python"][gpi])
    np.testing.assert_array_equal(left["task"].w, requested.task.w)
    assert left["policy"](55) in range(4)


def test_copied_python_of_a_packed_model_names_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    run = visr.load("pretrained:grid")
    requested = TaskRequests(run).infer(RequestFields({"kind": "expression", "text": "row > 5"}))
    left = performed(requested.to_dict(run)["python"]["true"])
    np.testing.assert_array_equal(left["task"].w, requested.task.w)


def test_a_saved_task_is_loaded_by_its_name_and_by_nothing_else(
    requests: TaskRequests, tmp_path: Path
):
    requested = requests.infer(RequestFields({"kind": "paint", "reward": painted()}))
    assert requests.save(requested.id, "My Task!") == "my-task"
    again = requests.infer(RequestFields({"kind": "saved", "name": "my-task"}))
    np.testing.assert_array_equal(again.task.w, requested.task.w)
    left = performed(again.to_dict(requests.run)["python"]["true"])
    np.testing.assert_array_equal(left["task"].w, requested.task.w)
    requested.task.save(tmp_path / "elsewhere.json")
    for name in ("../../elsewhere", str(tmp_path / "elsewhere"), "my-task.json", "", "."):
        with pytest.raises(UserError, match="keeps no task"):
            requests.infer(RequestFields({"kind": "saved", "name": name}))


def test_saving_replaces_nothing(requests: TaskRequests):
    first = requests.infer(RequestFields({"kind": "random", "seed": 1}))
    second = requests.infer(RequestFields({"kind": "random", "seed": 2}))
    requests.save(first.id, "mine")
    with pytest.raises(UserError, match="`mine` already"):
        requests.save(second.id, "mine")
    assert requests.save(second.id, "") == "skill-2"


@pytest.mark.parametrize("name", ["../../../tmp/evil", "/etc/passwd", "..", "a/b\\c", "~root"])
def test_a_task_is_saved_in_the_run_whatever_its_name(
    requests: TaskRequests, run_path: Path, name: str
):
    requested = requests.infer(RequestFields({"kind": "random", "seed": 1}))
    stem = requests.save(requested.id, name)
    assert (run_path / "tasks" / f"{stem}.json").is_file()


def test_marked_frames_point_from_bad_to_good(requests: TaskRequests):
    good, bad, neither = np.eye(5)[0], np.eye(5)[1], np.eye(5)[2:]
    phi = [good.tolist()] * 3 + [bad.tolist()] * 3 + neither.tolist()
    liked = [1] * 3 + [-1] * 3 + [0] * 3
    task = requests.infer(RequestFields({"kind": "marks", "phi": phi, "liked": liked})).task
    assert task.w[0] > 0.5
    assert task.w[1] < -0.5
    assert np.abs(task.w[2:]).max() < 0.2


@pytest.mark.parametrize("liked", [[0, 0], [1, 1], [2, 0], [1]])
def test_marks_that_are_all_equal_are_refused(requests: TaskRequests, liked: list[int]):
    phi = np.eye(5)[:2].tolist()
    with pytest.raises(UserError):
        requests.infer(RequestFields({"kind": "marks", "phi": phi, "liked": liked}))


def test_a_mixture_is_the_sum_of_its_parts(requests: TaskRequests):
    a = requests.infer(RequestFields({"kind": "random", "seed": 1}))
    b = requests.infer(RequestFields({"kind": "expression", "text": "row"}))
    parts = [{"id": a.id, "weight": 0.3}, {"id": b.id, "weight": 0.7}]
    mixed = requests.infer(RequestFields({"kind": "mix", "parts": parts}))
    expected = mix([(a.task, 0.3), (b.task, 0.7)])
    np.testing.assert_array_equal(mixed.task.w, expected.w)
    left = performed(mixed.to_dict(requests.run)["python"]["false"])
    np.testing.assert_array_equal(left["task"].w, expected.w)


def watched(states: list[Any], actions: list[int]) -> dict[str, Watched]:
    """A live session `page` that went through these states."""
    page = Watched()
    page.begin(np.array(states[0]))
    for action, state in zip(actions, states[1:], strict=True):
        page.add(action, np.array(state))
    return {"page": page}


def same(requests: TaskRequests, content: dict[str, Any]) -> RequestedTask:
    """The task of a request, which its copied Python gives too, and which is saved with its prompt."""
    requested = requests.infer(RequestFields(content))
    left = performed(requested.to_dict(requests.run)["python"]["true"])
    np.testing.assert_allclose(left["task"].w, requested.task.w, atol=1e-6)
    name = requests.save(requested.id, "")
    saved = Task.load(requests.run.directory.task(name)).prompt
    assert saved is not None
    assert requested.task.prompt is not None
    assert saved.kind == requested.task.prompt.kind
    return requested


@pytest.mark.parametrize("content", [{"text": "2,3"}, {"session": "page"}])
def test_a_goal_on_the_grid_is_a_cell_or_what_is_on_the_screen(
    run_path: Path, content: dict[str, str]
):
    requests = TaskRequests(api.load(run_path), watched([5, 23], [3]))
    requested = same(requests, {"kind": "goal", **content})
    assert requested.task.reward is not None
    assert requested.task.reward.argmax() == 23
    assert requested.words


def test_a_goal_elsewhere_names_numbers_or_is_what_is_on_the_screen(cart: api.Run):
    requested = same(TaskRequests(cart), {"kind": "goal", "text": "position=0.5"})
    assert "close to it" in requested.words[-1]
    state = np.array([0.1, 0, -0.05, 0.2], np.float32)
    page = watched([state], [])
    assert same(TaskRequests(cart, page), {"kind": "goal", "session": "page"}).words


@pytest.mark.parametrize("text", ["0.5,0.5", "goal.npy", "/etc/passwd.NPY ", "wheels=2", ""])
def test_a_goal_that_is_none_says_what_one_looks_like(cart: api.Run, text: str):
    with pytest.raises(UserError, match=r"position|x0=0\.5|reads no files"):
        TaskRequests(cart).infer(RequestFields({"kind": "goal", "text": text}))


def test_a_watched_episode_is_a_demonstration(run_path: Path):
    requests = TaskRequests(api.load(run_path), watched([22, 23, 24, 25], [3, 3, 3]))
    requested = same(requests, {"kind": "demonstration", "session": "page"})
    assert requested.task.name == "3 watched steps"
    assert "agree with the demonstrated ones" in requested.words[1]


def test_without_a_watched_step_there_is_no_demonstration(run_path: Path):
    requests = TaskRequests(api.load(run_path), watched([22], []))
    with pytest.raises(UserError, match="press Play"):
        requests.infer(RequestFields({"kind": "demonstration", "session": "page"}))
    with pytest.raises(UserError, match="reload the page"):
        requests.infer(RequestFields({"kind": "demonstration", "session": "another"}))


def test_a_new_episode_replaces_the_demonstration_at_its_first_step():
    page = watched([1, 2, 3], [0, 1])["page"]
    page.begin(np.array(7))
    assert page.state == 7
    assert page.trajectory()[0].tolist() == [1, 2, 3]
    page.add(2, np.array(8))
    assert page.trajectory()[0].tolist() == [7, 8]


def test_an_expression_over_fields_costs_no_step(cart: api.Run):
    requests = TaskRequests(cart)
    requested = requests.infer(RequestFields({"kind": "expression", "text": "abs(angle) < 0.05"}))
    left = performed(requested.to_dict(cart)["python"]["true"])
    np.testing.assert_array_equal(left["task"].w, requested.task.w)
    assert requested.words


def test_the_environments_reward_is_collected_within_a_budget(cart: api.Run):
    content = {"kind": "environment", "episodes": 4, "steps": 400}
    requested = TaskRequests(cart).infer(RequestFields(content))
    left = performed(requested.to_dict(cart)["python"]["true"])
    np.testing.assert_array_equal(left["task"].w, requested.task.w)
    with pytest.raises(UserError, match="from 100 to 100000"):
        TaskRequests(cart).infer(RequestFields({**content, "steps": 10**9}))


@pytest.mark.parametrize(
    "text", ["angle # .npz", "data.npz", "__import__('os')", "x" * 501, "a\nb"]
)
def test_an_expression_reaches_neither_files_nor_python(cart: api.Run, text: str):
    with pytest.raises(UserError):
        TaskRequests(cart).infer(RequestFields({"kind": "expression", "text": text}))


def test_only_the_latest_tasks_are_kept(requests: TaskRequests):
    first = requests.infer(RequestFields({"kind": "random", "seed": 0}))
    for seed in range(1, 202):
        requests.infer(RequestFields({"kind": "random", "seed": seed}))
    with pytest.raises(UserError, match="choose it again"):
        requests.get(first.id)


def test_a_cell_as_a_reward_off_the_grid_says_what_a_goal_looks_like(cart: api.Run):
    with pytest.raises(UserError, match=r"is no grid.*position=0\.5,velocity=0"):
        TaskRequests(cart).infer(RequestFields({"kind": "expression", "text": "goal:0.5,0.5"}))


def test_an_episode_that_a_page_drove_is_compared_with_recorded_steps(cart: api.Run):
    recorded = cart.recording().in_order()
    states = [recorded.before[0], *recorded.reached[:6]]
    page = watched(states, recorded.action[:6].tolist())
    requested = same(TaskRequests(cart, page), {"kind": "demonstration", "session": "page"})
    given = (np.stack(states), recorded.action[:6])
    compared = cart.inference.compare(cart.inference.prompt(demonstration=given))
    assert demonstration.CONTRAST in compared.estimates
    assert requested.task.method == compared.best
