"""What is known of a task of the replay learner before it is played."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr
from visr.inference import diagnosis, policy_prediction
from visr.storage.records.library import Library
from visr.training import describe_library

SIZE: dict[str, Any] = {"height": 5, "width": 5}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> visr.Run:
    """The replay learner on a small grid, hardly trained, so that policies differ in quality."""
    short: dict[str, Any] = {"num_steps": 8_192, "warmup_steps": 4_096, "num_updates": 60}
    short |= {"library_steps": 0}  # with last layers of its own every policy is optimal
    path = tmp_path_factory.mktemp("diagnosis") / "run"
    return visr.pretrain(
        "visr/Grid-v0", algorithm="replay", num_features=32, out=path, **SIZE, **short
    )


def test_the_predicted_fraction_is_the_true_one_where_features_tell_states_apart(run: visr.Run):
    pairs = []
    for cell in range(0, 25, 3):
        task = run.infer(f"goal:{cell // 5},{cell % 5}")
        found = run.diagnose(task)
        assert found is not None
        assert found.prediction is not None
        true = run.evaluate(task).fraction_of_optimal  # pyright: ignore
        pairs.append((found.prediction.fraction_of_best, np.clip(true, 0, 1)))
    predicted, true = np.array(pairs).T
    assert np.ptp(true) > 0.1  # otherwise nothing is told apart
    assert np.abs(predicted - true).max() < 0.1


def test_vectors_have_no_prediction(tmp_path: Path):
    short: dict[str, Any] = {"num_steps": 2_048, "warmup_steps": 1_024, "num_updates": 2}
    run = visr.pretrain(
        "CartPole-v1", algorithm="replay", num_envs=4, out=tmp_path / "run", **short
    )
    found = run.diagnose(run.infer("position > 0"))
    assert found is not None
    assert found.similar
    assert found.prediction is None


def test_a_policy_as_good_as_the_best_known_is_predicted_to_be_so():
    same = policy_prediction.ValuePrediction(value=2.0, random=1.0, best=2.0)
    none = policy_prediction.ValuePrediction(value=1.0, random=1.0, best=3.0)
    assert same.fraction_of_best == 1.0
    assert none.fraction_of_best == 0.0


def test_the_most_similar_practised_task_of_a_goal_is_its_cell(run: visr.Run):
    found = run.diagnose(run.infer("goal:2,3"))
    assert found is not None
    assert found.similar == "cell 2,3"
    assert found.cosine > 0.99
    assert any("cell 2,3" in sentence for sentence in found.words)


def test_the_library_counts_the_steps_that_reach_each_cell(run: visr.Run):
    known = Library.load(run.directory.library)
    assert sum(task.reached for task in known.tasks) == pytest.approx(1, abs=0.01)
    assert known.agent_words == ""


def test_events_are_named_by_the_planes_of_the_game():
    names = ["paddle", "ball", "trail", "brick"]
    assert describe_library.in_words("plane 3 lost", names) == "brick lost"
    assert (
        describe_library.in_words("plane 1 vanished beside plane 0", names)
        == "ball vanished beside paddle"
    )
    assert describe_library.in_words("plane 7 lost", names) == "plane 7 lost"


def test_a_library_survives_its_file(tmp_path: Path, run: visr.Run):
    known = Library.load(run.directory.library)
    known.save(tmp_path / "library.json")
    assert Library.load(tmp_path / "library.json") == known


def test_every_cell_is_left_by_every_action(run: visr.Run):
    assert run.world is not None
    steps = diagnosis.steps_of_world(run.world)
    assert len(steps.action) == 25 * 4
    assert (run.world.transitions[steps.observation, steps.action] == steps.next_observation).all()
