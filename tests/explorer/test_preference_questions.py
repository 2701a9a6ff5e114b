"""The page asks which of two recorded segments is better, and its task follows the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr
from tests.conftest import tiny
from tests.explorer.launching import serving, untrained
from visr import api, config
from visr.config import presets
from visr.envs import modules
from visr.errors import UserError
from visr.explorer.messages import RequestFields
from visr.explorer.preference_questions import Questions
from visr.explorer.task_requests import TaskRequests
from visr.inference.preferences import SEGMENT, segment_sums, starts

NONE = np.zeros((0, 3), np.intp)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """A grid whose agent knows nothing yet, with a small recording."""
    settings = config.replace(tiny(), recorded_steps=3_000)
    return api.load(untrained(tmp_path_factory.mktemp("grid") / "run", settings))


def test_on_the_grid_a_film_is_a_path_of_neighbouring_cells(grid: api.Run):
    asked = Questions(grid).next(NONE, 0)
    assert asked["pair"][0] != asked["pair"][1]
    for film in asked["films"]:
        rows, cols = np.divmod(film["states"], 10)
        assert len(rows) == SEGMENT + 1
        assert (np.abs(np.diff(rows)) + np.abs(np.diff(cols)) <= 1).all()


def test_answers_of_a_teacher_lead_to_the_teachers_task(grid: api.Run):
    teacher, questions = grid.skill(3).w, Questions(grid)
    answers: list[list[int]] = []
    for number in range(20):
        given = np.array(answers, np.intp).reshape(-1, 3)
        pair = questions.next(given, number)["pair"]
        sums = [questions.recorded.phi[at : at + SEGMENT].sum(axis=0) @ teacher for at in pair]
        answers.append([*(pair if sums[0] > sums[1] else pair[::-1]), 0])
    requested = TaskRequests(grid).infer(RequestFields({"kind": "preferences", "answers": answers}))
    phi = questions.recorded.phi
    begins = starts(questions.recorded.episode)
    sums = segment_sums(phi, [(at, at + SEGMENT) for at in begins.tolist()])
    liked = sums @ teacher  # of the segment that w likes best, from the mean 0 to the best 1
    liked = (liked - liked.mean()) / (liked.max() - liked.mean())
    assert liked[(sums @ requested.task.w).argmax()] > 0.9
    assert "of 20 answers" in requested.words[0]
    scope: dict[str, Any] = {}
    exec(requested.to_dict(grid)["python"]["true"], scope)
    np.testing.assert_allclose(scope["task"].w, requested.task.w, atol=1e-9)


def test_an_answer_that_both_are_as_good_counts_too(grid: api.Run):
    content = {"kind": "preferences", "answers": [[0, 300, 0], [600, 900, 1]]}
    requested = TaskRequests(grid).infer(RequestFields(content))
    assert requested.words[0].endswith("1 answers; 1 more say that both are as good.")
    scope: dict[str, Any] = {}
    exec(requested.to_dict(grid)["python"]["true"], scope)
    np.testing.assert_allclose(scope["task"].w, requested.task.w, atol=1e-9)


def test_an_answer_about_an_unknown_step_is_refused(grid: api.Run):
    for step in (-1, 2_990, 10**9):
        with pytest.raises(UserError, match="not recorded"):
            Questions(grid).prompt(np.array([[0, step, 0]]))


def cart(path: Path, env: str = "CartPole-v1") -> api.Run:
    small = {"env": env, "recorded_steps": 2_000}
    return api.load(untrained(path, config.replace(presets.for_environment(env, "visr"), **small)))


def test_numbers_are_shown_as_films_that_the_environment_draws(tmp_path: Path):
    questions = Questions(cart(tmp_path / "cart"))
    asked = questions.next(NONE, 0)
    for film in asked["films"]:
        assert (film["kind"], film["num_frames"]) == ("film", SEGMENT + 1)
        assert film["film"].startswith("data:image/png")
    assert asked["films"][0]["film"] != asked["films"][1]["film"]
    assert not questions.is_kept  # Python knows the run's recording, and these are other steps
    content = {"kind": "preferences", "answers": [[*asked["pair"], 0]]}
    requests = TaskRequests(questions._run)
    assert requests.infer(RequestFields(content)).lines[0].startswith("task = run.skill(")


OWN = """
import gymnasium, numpy as np

class Own(gymnasium.Env):
    metadata = {"render_modes": MODES}
    observation_space = gymnasium.spaces.Box(-9, 9, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = START, 0
        return self.x.astype(np.float32), {}

    def step(self, action):
        self.x, self.t = self.x * 0.9 + action, self.t + 1
        return self.x.astype(np.float32), 0.0, False, self.t == 60, {}

    def render(self):
        return np.full((20, 30, 3), int(20 * self.x[0]) % 255, np.uint8)
"""


@pytest.mark.parametrize(
    ("modes", "start"),
    [("[]", "self.np_random.normal(size=3)"), ('["rgb_array"]', "np.random.normal(size=3)")],
    ids=["it cannot draw itself", "it ignores its seed"],
)
def test_curves_are_shown_where_no_film_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modes: str, start: str
):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN.replace("MODES", modes).replace("START", start))
    modules.trust("own.py:Own")
    films = Questions(cart(tmp_path / "own", "own.py:Own")).next(NONE, 0)["films"]
    assert [film["kind"] for film in films] == ["numbers", "numbers"]
    assert films[0]["names"] == ["x0", "x1", "x2"]
    assert np.shape(films[0]["values"]) == (3, SEGMENT + 1)


def test_images_are_shown_as_pictures(tmp_path: Path):
    pytest.importorskip("minatar")
    game = "MinAtar/Breakout-v1"
    settings = config.replace(presets.for_environment(game, "visr"), env=game)
    run = api.load(untrained(tmp_path / "game", settings))
    requests = TaskRequests(run)
    asked = requests.questions.next(NONE, 0)
    assert asked["films"][0]["film"].startswith("data:image/png")
    content = {"kind": "preferences", "answers": [[*asked["pair"], 0]]}
    assert requests.infer(RequestFields(content)).lines[0].startswith("task = run.skill(")


def test_questions_come_over_http(grid: api.Run):
    with serving(grid.path) as launched:
        status, asked, _ = launched.ask("POST", "/api/question", {"answers": [], "number": 0})
        assert (status, len(asked["films"])) == (200, 2)
        content = {"kind": "preferences", "answers": [[*asked["pair"], 0]]}
        status, task, _ = launched.ask("POST", "/api/task", content)
        assert (status, task["prompt"]["kind"]) == (200, "preferences")
        assert launched.ask("POST", "/api/question", {"answers": [[1, 2]], "number": 0})[0] == 400
    assert visr.Task(w=task["w"]).w @ np.array(task["w"]) == pytest.approx(1)
