"""A live session executes commands, streams frames and loads newer weights at an episode's end."""

from __future__ import annotations

import contextlib
import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from websockets.sync.client import connect

from tests.conftest import tiny
from tests.explorer.launching import Launched, serving, untrained
from visr import api, config
from visr.config import presets
from visr.errors import UserError
from visr.explorer.live import LiveSession
from visr.explorer.messages import RequestFields
from visr.explorer.state import ExplorerState


def unpacked(message: Any) -> tuple[dict[str, Any], np.ndarray | None]:
    """The head and the picture of a frame."""
    (length,) = struct.unpack("<I", message[:4])
    picture = message[4 + length :]
    image = np.asarray(Image.open(io.BytesIO(picture))) if picture else None
    return json.loads(message[4 : 4 + length]), image


def command(what: str, **fields: Any) -> RequestFields:
    return RequestFields({"do": what, **fields})


@pytest.fixture
def show(run_path: Path) -> LiveSession:
    return LiveSession(api.load(run_path))


def test_a_frame_has_the_state_and_the_action_values(show: LiveSession):
    show.execute(command("restart", seed=3), show.run)
    head, picture = unpacked(show.frame())
    assert (head["step"], head["q"], head["own_score"]) == (0, None, 0)
    assert picture is not None
    assert picture.shape == (10, 10, 3)
    show.step(show.run)
    show.step(show.run)
    head, _ = unpacked(show.frame())
    assert head["step"] == 2
    assert len(head["q"]) == 4
    assert np.linalg.norm(head["phi"]) == pytest.approx(1, abs=1e-4)
    assert head["own_reward"] == pytest.approx(np.dot(head["phi"], show.run.skill(0).w), abs=1e-4)


def test_a_task_is_pursued_from_the_next_step_on(show: LiveSession):
    w = [0, 0, 1, 0, 0]
    show.execute(command("task", w=w), show.run)
    show.step(show.run)
    head, _ = unpacked(show.frame())
    assert head["own_score"] == pytest.approx(head["phi"][2], abs=1e-5)


def test_the_asked_return_and_the_painted_reward_are_shown(run_path: Path):
    explored = ExplorerState(run_path)
    reward = np.zeros(100)
    reward[:50], reward[99] = 1, -1
    painted = explored.requests.infer(RequestFields({"kind": "paint", "reward": reward.tolist()}))
    show = LiveSession(explored.run, lambda id: explored.requests.get(id).task)
    _, plain = unpacked(show.frame())
    sent = command("task", id=painted.id, w=painted.task.w.tolist())
    assert show.execute(sent, show.run)
    head, tinted = unpacked(show.frame())
    assert plain is not None
    assert tinted is not None
    coloured = (tinted != plain).any(axis=-1).ravel()
    assert set(np.flatnonzero(coloured)) >= set(np.flatnonzero(reward)) - {
        int(head["observation"][0])
    }
    total = 0.0
    for _ in range(10):
        show.step(show.run)
        head, _ = unpacked(show.frame())
        total += reward[int(head["observation"][0])]
        assert head["asked_return"] == pytest.approx(total)
    assert head["asked"] == "the asked reward painted"
    forgotten = command("task", id="0" * 16, w=painted.task.w.tolist())
    show.execute(forgotten, show.run)
    assert "phi . w" in unpacked(show.frame())[0]["asked"]


def test_a_page_may_drive_and_what_it_did_is_kept(show: LiveSession):
    show.execute(command("restart", seed=0), show.run)
    for action in (0, 3, 3):
        show.execute(command("act", action=action), show.run)
        assert unpacked(show.frame())[0]["action"] == action
    states, actions = show.watched.trajectory()
    assert actions.tolist() == [0, 3, 3]
    assert states[-1] == unpacked(show.frame())[0]["observation"][0]
    with pytest.raises(UserError):
        show.execute(command("act", action=4), show.run)


@pytest.mark.parametrize(
    "given",
    [
        command("dance"), command("speed", value=0), command("speed", value=1e9), command("epsilon", value=2),
        command("gpi", value=1), command("restart", seed=-1), command("task", w=[1]),
        command("task", w=[0] * 5),
        RequestFields({}), command("restart", seed=2**31),
    ],
)  # fmt: skip
def test_invalid_commands_are_refused(show: LiveSession, given: RequestFields):
    with pytest.raises(UserError):
        show.execute(given, show.run)


def test_newer_weights_are_used_from_the_next_episode_on(show: LiveSession, run_path: Path):
    newer = api.load(run_path)
    limit = show.run.config.grid.max_episode_steps
    for _ in range(limit):
        show.step(newer)
    assert show.run is not newer
    show.step(newer)
    assert show.run is newer
    assert unpacked(show.frame())[0]["step"] == 0


@pytest.mark.parametrize("env", ["MinAtar/Breakout-v1", "CartPole-v1", "ALE/Pong-v5"])
def test_any_run_can_be_watched(env: str, tmp_path: Path):
    pytest.importorskip({"Mi": "minatar", "AL": "ale_py"}.get(env[:2], "gymnasium"))
    preset = "atari-small" if env.startswith("ALE") else None
    chosen = presets.for_environment(env, "visr") if preset is None else presets.get(preset)
    show = LiveSession(api.load(untrained(tmp_path / "run", config.replace(chosen, env=env))))
    _, first = unpacked(show.frame())
    assert first is not None
    for number in range(1, 40):  # whoever chooses to do nothing sees nothing move at first
        show.step(show.run)
        head, picture = unpacked(show.frame())
        assert head["step"] == number
        if (picture != first).any():
            break
    else:
        pytest.fail("nothing ever moved")
    show.close()


def test_frames_come_over_a_websocket_at_the_pace_that_was_asked_for(launched: Launched):
    address = f"ws://127.0.0.1:{launched.server.port}/api/live"
    protocols: Any = ["visr", launched.server.token]
    with connect(address, subprotocols=protocols) as live:
        assert unpacked(live.recv(timeout=120))[0]["step"] == 0
        live.send(json.dumps({"do": "speed", "value": 60}))
        live.send(json.dumps({"do": "play"}))
        steps = []
        while len(steps) < 20:
            steps.append(unpacked(live.recv(timeout=120))[0]["step"])
            live.send(json.dumps({"do": "seen"}))
        assert steps == list(range(1, 21))
        live.send(json.dumps({"do": "nonsense"}))
        while isinstance(said := live.recv(timeout=120), bytes):
            pass
        assert json.loads(said) == {"error": "There is no command 'nonsense'."}


def test_a_slow_page_pauses_the_session(launched: Launched):
    address = f"ws://127.0.0.1:{launched.server.port}/api/live"
    protocols: Any = ["visr", launched.server.token]
    with connect(address, subprotocols=protocols) as live:
        live.send(json.dumps({"do": "speed", "value": 240}))
        live.send(json.dumps({"do": "play"}))
        frames = 0
        with contextlib.suppress(TimeoutError):
            while live.recv(timeout=1.5):
                frames += 1
        assert frames == 8
        live.send(json.dumps({"do": "seen"}))
        assert live.recv(timeout=120)


def test_a_run_in_training_is_explored_as_of_its_newest_checkpoint(tmp_path: Path):
    path = untrained(tmp_path / "run", tiny())
    explored = ExplorerState(path)
    assert explored.progress()["num_steps"] == 0
    run = explored.run.directory
    (path / "checkpoints" / "000000000000.safetensors").rename(run.checkpoint(10_240))
    progress = explored.progress()
    assert (progress["num_steps"], progress["newest_steps"]) == (0, 10_240)
    assert not progress["is_finished"]
    task = explored.requests.infer(RequestFields({"kind": "random", "seed": 1}))
    explored.reload()
    assert explored.progress()["num_steps"] == 10_240
    with pytest.raises(UserError, match="choose it again"):
        explored.requests.get(task.id)


def test_a_damaged_file_leaves_the_other_curves(run_path: Path):
    with serving(run_path) as launched:
        _, curves, _ = launched.ask("GET", "/api/curves")
        rows = (run_path / "metrics.csv").read_text().splitlines()
        assert len(curves["metrics"]["num_steps"]) == len(rows) - 1
        (run_path / "metrics.csv").write_text("num_steps,psi_loss\n1,2,3\n")
        _, curves, _ = launched.ask("GET", "/api/curves")
        assert curves["metrics"] == {}
        assert curves["evaluation"]["span"]
