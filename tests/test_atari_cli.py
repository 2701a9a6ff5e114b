"""The command line on an Atari game: pre-train, infer, evaluate, record a video, report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr as library
from tests.test_cli import visr
from visr.cli import main
from visr.storage.files import read_json
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir

TINY = (
    *("--preset", "atari-small", "--num-steps", "320", "--num-envs", "5", "--num-threads", "1"),
    *("--num-rewarded-envs", "1", "--batch-size", "2", "--unroll-length", "8"),
    *("--max-episode-frames", "120", "--log-every", "64", "--checkpoint-every", "160"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("atari") / "run"
    assert main(["pretrain", "ALE/MsPacman-v5", *TINY, "--out", str(path)]) == 0
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_run_writes_the_returns_of_its_rewarded_environments(trained: Path):
    files = RunDir.open(trained)
    assert files.last_row(files.metrics)["num_steps"] == 320
    assert files.last_row(files.online)["num_episodes"] >= 1


def test_evaluating_a_game_is_the_papers_second_phase(run: Path):
    options = ("--episodes", "2", "--rewarded-steps", "200", "--rewarded-episodes", "3")
    answer = visr("evaluate", run, *options, "--seed", "5", "--json")
    content = answer.json
    assert content == read_json(run / "phase_two.json")
    names = [condition["name"] for condition in content["conditions"]]
    assert names[-2:] == ["@0 (a new task every 40 steps)", "random policy"]
    assert "env-search" in names
    assert content["num_rewarded_episodes"] == 3
    for condition in content["conditions"]:
        assert len(condition["scores"]) == 2
        assert condition["mean"] == pytest.approx(np.mean(condition["scores"]))
        expected = 100 * (condition["mean"] - 307.3) / (6951.6 - 307.3)  # as published
        assert condition["human_normalised"] == pytest.approx(expected)
        assert condition["at_75"] == (expected >= 75)
    again = visr("evaluate", run, *options, "--seed", "5", "--json").json
    assert again == content
    assert visr("report", run, "--json").code == 0


def test_a_saved_task_is_evaluated_by_whole_episodes(run: Path):
    w = np.eye(5)[0]
    nothing: dict[str, Any] = {"r_squared": 0.0, "condition_number": 1.0, "standard_error": w}
    task = Task("first", "ALE/MsPacman-v5", w, "by hand", **nothing, num_steps=1, num_rewarded=0)
    task.save(run / "tasks" / "first.json")
    answer = visr("evaluate", run, "first", "--episodes", "2", "--json").json
    assert len(answer["scores"]) == len(answer["num_steps"]) == 2
    assert (run / "tasks" / "first.evaluation.json").is_file()


def test_rewards_of_the_game_become_a_task(run: Path):
    config = read_json(run / "config.json")
    config["config"]["atari"]["max_episode_frames"] = 600  # its music alone takes 260
    (run / "config.json").write_text(json.dumps(config))
    answer = visr("infer", run, "--reward", "env", "--episodes", "4", "--steps", "500", "--json")
    assert np.linalg.norm(answer.json["w"]) == pytest.approx(1)
    saved = Task.load(run / "tasks" / "env.json")
    assert saved.num_rewarded > 0
    assert {"least squares", "random search"} <= set(answer.json["methods"])


def test_a_video_shows_every_step_in_colour(run: Path, tmp_path: Path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    video = tmp_path / "videos" / "skill.mp4"
    arguments = ("--task", "skill:4", "--video", video, "--max-steps", "20", "--json")
    answer = visr("play", run, *arguments).json
    assert answer["num_steps"] == [20]
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(video))
    assert (frames, round(seconds, 1)) == (21, 1.4)
    assert list(video.parent.iterdir()) == [video]
    reader = imageio_ffmpeg.read_frames(str(video))
    width, height = next(reader)["size"]
    picture = np.frombuffer(next(reader), np.uint8).reshape(height, width, 3)
    reader.close()
    assert (width, height) == (480, 440)
    assert np.ptp(picture[:420].astype(int), axis=-1).max() > 50  # a ghost is red


def test_equal_seeds_play_equal_games(run: Path):
    first, again, other = (
        visr("play", run, "--task", "skill:1", "--max-steps", "60", "--seed", seed, "--json").json
        for seed in ("3", "3", "4")
    )
    assert first == again
    assert len(first["scores"]) == 1
    assert other["task"] == "skill:1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("evaluate", "--gamma", "0.9"), "no exact values"),
        (("evaluate", "--episodes", "0"), "episodes = 0"),
        (("infer", "--reward", "boxes:7"), "No sample of ALE/MsPacman-v5"),
        (("infer", "--reward", "env", "--steps", "-1"), "steps = -1"),
        (("play", "--task", "skill:x"), "whole number"),
        (("play", "--task", "axis:9"), "from 1 to 5"),
        (("play", "--task", "missing"), "There is no task 'missing'"),
        (("play", "--video", "video.avi"), ".mp4"),
        (("play", "--max-steps", "0"), "max_steps = 0"),
        (("play", "--epsilon", "2"), "epsilon = 2"),
        (("play", "--device", "cuda:99"), "device = 'cuda:99'"),
    ],
)
def test_bad_input_for_a_game_is_one_sentence(run: Path, arguments: tuple[str, ...], words: str):
    verb, *rest = arguments
    answer = visr(verb, run, *rest)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    assert words in answer.err


def test_a_video_without_imageio_is_one_sentence(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    answer = visr("play", run, "--video", run / "video.mp4", "--max-steps", "3")
    assert answer.code == 2
    assert "visr[video]" in answer.err
    assert not list(run.glob("*.mp4"))


def test_the_python_api_works_on_games(run: Path):
    loaded = library.load(run)
    screens = np.zeros((3, 4, 84, 84), dtype=np.uint8)
    assert loaded.features(screens).shape == (3, 5)
    assert loaded.successor_features(screens, np.eye(5)[0]).shape == (3, 9, 5)
    result = loaded.phase_two(num_episodes=2, num_steps=60, num_trials=1)
    task = result.tasks["env-search"]
    policy = loaded.policy(task)
    assert 0 <= policy(screens[0]) < 9
    assert policy(screens).shape == (3,)
    assert len(loaded.evaluate_task(task, num_episodes=1).scores) == 1
