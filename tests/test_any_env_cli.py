"""The command line on CartPole and on MinAtar: every verb, with small numbers."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.test_cli import visr
from visr.storage.files import read_json
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir
from visr.training import checkpoint

TINY = (
    *("--num-steps", "640", "--num-envs", "4", "--batch-size", "2", "--unroll-length", "8"),
    *("--num-rewarded-envs", "0", "--num-processes", "1", "--num-actor-groups", "1"),
    *("--recorded-steps", "400", "--log-every", "128", "--checkpoint-every", "320"),
    *("--num-features", "5", "--precision", "float32"),
)
METHODS = ["least squares", "ridge", "centred", "centred ridge", "whitened"]


@pytest.fixture(scope="module")
def trained_pole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pole") / "run"
    answer = visr("pretrain", "CartPole-v1", *TINY, "--hidden-sizes", "16", "16", "--out", path)
    hint = f'Next: visr infer {path} --reward "position > 0" --name first\n'
    assert (answer.code, answer.err) == (0, hint)
    return path


@pytest.fixture(scope="module")
def trained_breakout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("minatar")
    path = tmp_path_factory.mktemp("breakout") / "run"
    answer = visr("pretrain", "MinAtar/Breakout-v1", *TINY, "--out", path)
    assert (answer.code, answer.err) == (0, f"Next: visr infer {path} --reward env\n")
    return path


@pytest.fixture
def pole(trained_pole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_pole, tmp_path / "run"))


@pytest.fixture
def breakout(trained_breakout: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_breakout, tmp_path / "run"))


# --- pretrain


def test_a_run_keeps_a_sample_where_observations_are_small(
    trained_pole: Path, trained_breakout: Path
):
    assert RunDir.open(trained_pole).recorded.is_file()
    assert not RunDir.open(trained_breakout).recorded.exists()
    for path in (trained_pole, trained_breakout):
        files = RunDir.open(path)
        assert files.last_row(files.metrics)["num_steps"] == 640


def test_a_resumed_run_ends_as_one_that_never_stopped(pole: Path, trained_pole: Path):
    whole, run = RunDir.open(trained_pole), RunDir.open(pole)
    newest = checkpoint.newest(run)
    assert newest.stem == "000000000640"
    newest.unlink()
    run.recorded.unlink()
    answer = visr("pretrain", "--resume", pole, "--json").json
    assert answer["num_steps"] == 640
    (tensors, counts), (others, other_counts) = (
        checkpoint.load(checkpoint.newest(r)) for r in (whole, run)
    )
    assert counts == other_counts
    assert tensors.keys() == others.keys()
    assert [name for name in tensors if torch.equal(tensors[name], others[name])] == list(tensors)
    assert whole.metrics.read_bytes() == run.metrics.read_bytes()
    assert whole.recorded.read_bytes() == run.recorded.read_bytes()


def test_a_continuous_environment_is_trained_once_it_is_discretised(tmp_path: Path):
    arguments = ("pretrain", "Pendulum-v1", *TINY, "--hidden-sizes", "8", "--out", tmp_path / "run")
    refused = visr(*arguments)
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "--discretise 3" in refused.err
    assert not (tmp_path / "run").exists()
    assert visr(*arguments, "--num-steps", "64", "--discretise", "3").code == 0
    assert RunDir.open(tmp_path / "run").config().gym.discretise == 3


# --- infer


def test_the_environments_reward_becomes_a_task(pole: Path):
    options = ("--episodes", "6", "--steps", "300", "--seed", "2", "--json")
    answer = visr("infer", pole, "--reward", "env", *options).json
    assert answer["best"] == "random search"  # CartPole pays 1 at every step
    assert list(answer["methods"]) == ["least squares", "random search"]
    assert answer["w"] == answer["methods"]["random search"]["w"]
    assert answer["num_episodes"] == 6
    assert answer["num_steps"] == answer["num_rewarded"] <= 300
    assert np.linalg.norm(answer["w"]) == pytest.approx(1)
    assert Task.load(pole / "tasks" / "env.json").method.startswith("random search over 6 episodes")
    assert visr("infer", pole, "--reward", "env", *options).json == answer


def test_an_expression_becomes_a_task_without_a_step_of_the_environment(
    pole: Path, monkeypatch: pytest.MonkeyPatch
):
    from visr.envs.gym import GymEnvs

    monkeypatch.setattr(GymEnvs, "step", lambda *_: pytest.fail("it stepped"))
    answer = visr("infer", pole, "--reward", "abs(angle) < 0.05", "--json").json
    assert list(answer["methods"]) == METHODS
    scores = {name: method["r_squared"] for name, method in answer["methods"].items()}
    assert scores[answer["best"]] == max(scores.values()) == answer["r_squared"]
    assert answer["num_steps"] == 400
    assert 0 < answer["num_rewarded"] < 400
    file = Path(answer["file"])
    assert file == pole / "tasks" / "abs-angle-0-05.json"
    assert read_json(file).items() <= answer.items()
    for method in answer["methods"].values():
        assert np.array(method["interval"]).shape == (2, 5)
        assert len(method["w"]) == 5


@pytest.mark.parametrize("method", METHODS)
def test_a_method_can_be_chosen(pole: Path, method: str):
    arguments = ("--reward", "position > 0", "--method", method, "--name", "mine", "--json")
    answer = visr("infer", pole, *arguments).json
    assert answer["method"].startswith(method)
    assert answer["w"] == answer["methods"][method]["w"]
    assert answer["file"] == str(pole / "tasks" / "mine.json")


def test_infer_prints_a_table_and_the_method_to_trust(pole: Path):
    answer = visr("infer", pole, "--reward", "abs(angle) < 0.05")
    assert answer.code == 0
    for words in ("400 steps", "R^2 held out", "centred ridge", str(pole / "tasks")):
        assert words in answer.out
    title, *rows = answer.out.splitlines()
    assert title.endswith("* is best")
    assert sum(" * " in row for row in rows) == 1
    assert "Trust " in answer.err
    assert f"visr evaluate {pole} abs-angle-0-05\n" in answer.err


def test_trials_is_the_number_of_episodes_of_each_method(pole: Path):
    reward = ("--reward", "env", "--episodes", "3")
    answer = visr("infer", pole, *reward, "--evaluate", "--trials", "2", "--json").json
    assert {len(method["scores"]) for method in answer["methods"].values()} == {2}
    refused = visr("infer", pole, *reward, "--trials", "2")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--evaluate" in refused.err


def test_a_dataset_becomes_a_task(pole: Path, tmp_path: Path):
    random = np.random.default_rng(0)
    seen = random.normal(size=(300, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", observations=seen, rewards=seen[:, 2])
    answer = visr("infer", pole, "--reward", tmp_path / "data.npz", "--json").json
    assert (answer["num_steps"], answer["num_episodes"]) == (300, 3)


def test_minatars_reward_becomes_a_task(breakout: Path):
    options = ("--episodes", "30", "--steps", "1000", "--json")
    answer = visr("infer", breakout, "--reward", "env", *options).json
    assert list(answer["methods"]) == [*METHODS, "random search"]
    assert answer["num_rewarded"] > 0
    saved = Task.load(breakout / "tasks" / "env.json")
    assert np.allclose(saved.w, answer["w"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--reward", "tilt > 1"), "'tilt' is unknown: known are pi, position, velocity, angle"),
        (("--reward", "1"), "The reward is 1 at every step"),
        (("--reward", "0"), "No reward was seen in 400 steps"),
        (("--reward", "1 / (position - position)"), "not a finite number"),
        (
            ("--reward", "angle", "--method", "guess"),
            "no method 'guess' for this reward; there are best",
        ),
        (("--reward", "angle", "--method", "random search"), "no method 'random search'"),
        (("--reward", "angle", "--centred", "True"), "--centred is for rewards of cells"),
        (("--reward", "angle", "--episodes", "3"), "--episodes belongs to --reward env"),
        (("--reward", "angle", "--clip-rewards", "True"), "--clip-rewards belongs to"),
        (("--reward", "nowhere.npz"), "Cannot read nowhere.npz"),
        (("--reward", "env", "--episodes", "0"), "episodes = 0"),
    ],
)
def test_a_bad_reward_is_one_sentence(pole: Path, arguments: tuple[str, ...], words: str):
    answer = visr("infer", pole, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err.splitlines()[-1]
    assert "Traceback" not in answer.err
    assert not list((pole / "tasks").glob("*.json"))


def test_expressions_are_refused_for_image_observations(breakout: Path):
    answer = visr("infer", breakout, "--reward", "x0 > 1")
    assert answer.code == 2
    assert "No sample of MinAtar/Breakout-v1 was kept" in answer.err


# --- evaluate, play, report


@pytest.mark.parametrize("which", ["pole", "breakout"])
def test_phase_two_and_the_report_of_it(which: str, request: pytest.FixtureRequest):
    run: Path = request.getfixturevalue(which)
    options = ("--episodes", "2", "--rewarded-steps", "400", "--rewarded-episodes", "12")
    content = visr("evaluate", run, *options, "--json").json
    assert content == read_json(run / "phase_two.json")
    names = [condition["name"] for condition in content["conditions"]]
    assert names[-1] == "random policy"
    assert "env-search" in names
    for condition in content["conditions"]:
        assert len(condition["scores"]) == 2
        assert condition["human_normalised"] is None
    page = Path(visr("report", run).out.strip())
    assert page.is_file()
    text = page.read_text()
    assert run.name in text
    assert "random policy" in text


def test_a_task_is_evaluated_by_whole_episodes(pole: Path):
    visr("infer", pole, "--reward", "angle > 0", "--name", "tilted")
    answer = visr("evaluate", pole, "tilted", "--episodes", "3", "--json").json
    assert answer["scores"] == answer["num_steps"]  # CartPole pays 1 a step
    assert answer["mean"] == pytest.approx(np.mean(answer["scores"]))
    assert read_json(pole / "tasks" / "tilted.evaluation.json") == answer


def test_play_prints_the_score_of_each_episode(pole: Path):
    visr("infer", pole, "--reward", "angle > 0", "--name", "tilted")
    arguments = ("--task", "tilted", "--episodes", "2", "--max-steps", "30", "--json")
    answer = visr("play", pole, *arguments).json
    assert answer["task"] == "angle > 0"
    assert answer["scores"] == answer["num_steps"]
    assert max(answer["num_steps"]) <= 30
    assert visr("play", pole, *arguments).json == answer


def test_a_video_of_minatar_has_a_frame_for_every_step(breakout: Path, tmp_path: Path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    video = tmp_path / "video.mp4"
    answer = visr("play", breakout, "--video", video, "--max-steps", "5", "--json").json
    assert answer["num_steps"] == [5]
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(video))
    assert (frames, round(seconds, 1)) == (6, 0.6)
    reader = imageio_ffmpeg.read_frames(str(video))
    width, height = next(reader)["size"]
    picture = np.frombuffer(next(reader), np.uint8).reshape(height, width, 3).astype(int)
    reader.close()
    assert (width, height) == (320, 340)
    # cells of 32: rows 1 to 3 are bricks, and row 5 is empty at first
    assert picture[48, 16:304:32].max(axis=-1).min() > 100
    assert picture[5 * 32 + 16, 16:304:32].max() < 60


def test_a_video_of_cart_pole_uses_its_own_rendering(pole: Path, tmp_path: Path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    video = tmp_path / "video.mp4"
    answer = visr("play", pole, "--video", video, "--max-steps", "4", "--json").json
    assert imageio_ffmpeg.count_frames_and_secs(str(video))[0] == answer["num_steps"][0] + 1 == 5
