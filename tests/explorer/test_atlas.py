"""The skill atlas: tasks far apart, films of their rollouts, and warnings if they collapse."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.test_cli import visr
from visr import api
from visr.explorer import atlas
from visr.explorer.atlas import Atlas, Skill
from visr.ops import sphere


def skill(w: list[float], phi: list[list[float]]) -> Skill:
    return Skill(np.array(w), np.array(phi), None, (1, 1), [], 0.0, 1, None)


@pytest.fixture(scope="module")
def drawn(trained: Path) -> tuple[Atlas, api.Run]:
    run = api.load(trained)
    return list(atlas.draw(run, 4, seed=3))[-1], run


def test_states_along_their_own_task_are_separable():
    up, right = skill([0, 1], [[0, 1], [0.6, 0.8]]), skill([1, 0], [[1, 0], [0.8, 0.6]])
    # along (w - w') = (-1, 1): 1, 0.2 against -1, -0.2: every pair is told
    assert atlas.separability(up, right) == 1.0


def test_equal_states_are_separable_only_by_chance():
    same = [[0.6, 0.8], [1.0, 0.0]]
    assert atlas.separability(skill([0, 1], same), skill([1, 0], same)) == 0.5


def test_ties_count_half():
    # own 1, 0; theirs 0, 0 along (-1, 1): 1 > 0 twice, 0 = 0 twice: (2 + 2/2) / 4
    own, theirs = skill([0, 1], [[0, 1], [1, 1]]), skill([1, 0], [[1, 1], [2, 2]])
    assert atlas.separability(own, theirs) == 0.75


def test_collapsed_skills_give_a_warning():
    same = [[1.0, 0.0]] * 5
    collapsed = Atlas([skill([0, 1], same), skill([1, 0], same), skill([0, -1], same)])
    atlas.score(collapsed)
    assert any("phi has collapsed" in words for words in collapsed.warnings)
    assert any("skills have collapsed" in words for words in collapsed.warnings)
    assert all(one.nearest is not None for one in collapsed.skills)


def test_separable_skills_give_no_warning():
    directions = np.vstack([np.eye(3), -np.eye(3)]).tolist()
    healthy = Atlas([skill(w, [w] * 4) for w in directions])
    atlas.score(healthy)
    assert healthy.warnings == []
    assert healthy.discriminability == 1.0


def test_an_atlas_holds_films_visits_and_scores(drawn: tuple[Atlas, api.Run]):
    made, _ = drawn
    content = atlas.to_dict(made)
    assert len(content["skills"]) == 4
    for one in content["skills"]:
        assert one["film"].startswith("data:image/png;base64,")
        assert one["visits"].startswith("data:image/png;base64,")
        assert one["num_frames"] == len(one["frame_phi"]) == 32
        assert 0 <= one["discriminability"] <= 1


def test_an_atlas_is_a_function_of_its_seed(drawn: tuple[Atlas, api.Run]):
    made, run = drawn
    again = list(atlas.draw(run, 4, seed=3))[-1]
    assert atlas.to_dict(again) == atlas.to_dict(made)


def test_an_exported_atlas_is_self_contained(drawn: tuple[Atlas, api.Run]):
    page = atlas.page(*drawn)
    assert page.count('<article class="skill">') == 4
    assert "<script" not in page
    addresses = re.findall(r"""(?:src|href)=["']?([^"'\s>]+)|url\(([^)]+)\)""", page)
    assert addresses
    assert all((a or b).startswith("data:") for a, b in addresses)


def test_the_command_line_exports_an_atlas(trained: Path, tmp_path: Path):
    answer = visr(
        "explore", trained, "--export", tmp_path / "atlas.html", "--skills", "3", "--json"
    )
    assert answer.code == 0
    assert '"skills": 3' in answer.out
    assert (tmp_path / "atlas.html").read_text("utf-8").startswith("<!doctype html>")


def test_features_that_are_not_of_unit_length_give_no_warning():
    # VISR infers a task from phi of unit length; the replay learner's features are of other lengths
    events = Atlas([skill([0, 1], [[0, 0]] * 4), skill([1, 0], [[0, 0], [0, 3]])])
    atlas.score(events)
    assert events.warnings == []


def test_a_packed_replay_model_plays_tasks_of_its_library():
    run = api.load("pretrained:minatar-breakout")
    tasks = atlas.practised(run, 3, seed=0)
    library = run.agent.state_dict()["library"].numpy()
    rows = {tuple(row / np.linalg.norm(row)) for row in library if row.any()}
    assert [known for known, _ in tasks] == [None, None, None]
    assert all(tuple(w) in rows for _, w in tasks)


@pytest.mark.parametrize(("count", "d"), [(2, 3), (4, 3), (6, 3), (12, 5), (12, 16)])
def test_spread_points_are_further_apart_than_uniform_ones(count: int, d: int):
    def nearest(points: Tensor) -> float:
        return float((points @ points.T - 2 * torch.eye(count)).max())

    spread = atlas.spread(count, d, torch.Generator().manual_seed(0))
    drawn = sphere.uniform(count, d=d, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(spread.norm(dim=1), torch.ones(count))
    assert nearest(spread) < nearest(drawn)


def test_two_spread_points_are_opposite_and_four_form_a_tetrahedron():
    two = atlas.spread(2, 3, torch.Generator().manual_seed(1))
    assert float(two[0] @ two[1]) == pytest.approx(-1, abs=0.01)
    four = atlas.spread(4, 3, torch.Generator().manual_seed(1))
    off_diagonal = (four @ four.T)[~torch.eye(4, dtype=torch.bool)]
    torch.testing.assert_close(off_diagonal, torch.full((12,), -1 / 3), atol=0.03, rtol=0)
