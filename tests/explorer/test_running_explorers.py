"""Running explorers are listed and stopped, and a browser's command line holds no token."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.explorer.launching import serving
from tests.test_cli import visr
from visr.errors import UserError
from visr.explorer import running_explorers
from visr.explorer.running_explorers import Launch


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "visr"


def started(run: Path, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "visr", "explore", str(run), "--json", "--port", "0"]
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    return subprocess.Popen(command, **settings)


@pytest.fixture
def process(trained: Path) -> Iterator[subprocess.Popen[str]]:
    one = started(trained)
    yield one
    one.kill()
    one.communicate()


def test_an_explorer_is_listed_without_its_token_and_stopped(
    process: subprocess.Popen[str], trained: Path, folder: Path
):
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    files = list(folder.iterdir())
    assert {file.suffix for file in files} == {".json", ".html"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    listed = visr("explore", "--list", "--json")
    assert json.loads(listed.out) == {
        "running": [
            {
                "address": f"http://127.0.0.1:{said['port']}/",
                "run": str(trained),
                "pid": process.pid,
            }
        ]
    }
    assert said["token"] not in listed.out + visr("explore", "--list").out
    assert "No explorer of this run" in visr("explore", "elsewhere", "--stop").err
    assert process.poll() is None
    stopped = json.loads(visr("explore", str(trained), "--stop", "--json").out)
    assert [one["pid"] for one in stopped["stopped"]] == [process.pid]
    assert process.wait(timeout=60) == 0
    assert list(folder.iterdir()) == []
    assert "No explorer is running" in visr("explore", "--list").err


def test_files_of_a_killed_explorer_are_removed(process: subprocess.Popen[str], folder: Path):
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    assert len(list(folder.iterdir())) == 2
    (folder / "made-up.json").write_text("[" * 100_000)
    assert running_explorers.running() == []
    assert list(folder.iterdir()) == []


def test_a_listed_port_that_another_server_took_is_not_stopped(trained: Path, folder: Path):
    with serving(trained) as other:
        url = f"http://127.0.0.1:{other.server.port}/?token=of-a-launch-that-is-gone"
        with running_explorers.registered(Launch(1, url, "run")):
            assert running_explorers.running() == []
        assert other.is_serving()


def test_the_browser_is_started_without_the_token(trained: Path, tmp_path: Path):
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}.partial\nmv {seen}.partial {seen}\n')
    browser.chmod(0o700)
    controller, terminal = pty.openpty()
    environment = {**os.environ, "BROWSER": str(browser)}
    one = started(trained, stdout=terminal, stderr=subprocess.DEVNULL, env=environment)
    os.close(terminal)
    try:
        said = json.loads(os.read(controller, 65536))
        deadline = time.monotonic() + 60
        while not seen.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        opened = seen.read_text().strip()
        assert said["token"] not in opened
        page = Path(opened.removeprefix("file://"))
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert said["url"] in page.read_text()
        line = Path(f"/proc/{one.pid}/cmdline")
        assert not line.exists() or said["token"] not in line.read_text()
    finally:
        one.kill()
        one.wait()
        os.close(controller)


@pytest.mark.parametrize("kind", ["open to all", "a link", "a file"])
def test_a_folder_that_others_can_change_is_not_used(folder: Path, tmp_path: Path, kind: str):
    if kind == "open to all":
        folder.mkdir()
        folder.chmod(0o777)
    elif kind == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.write_text("")
    with pytest.raises(UserError, match="XDG_RUNTIME_DIR"):
        running_explorers.running()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "visr explore --list"),
        (("--list", "--port", "3"), "--port belongs neither to --list nor to --stop"),
        (("--stop", "--export", "a.html"), "--export belongs neither"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: tuple[str, ...], words: str):
    answer = visr("explore", *arguments)
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("host", "warns"), [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)]
)
def test_an_address_that_others_reach_is_named_with_a_safer_way(
    trained: Path, host: str, warns: bool
):
    from visr.explorer.serve import Server

    server = Server(trained, host=host, port=0)
    warning = server.warning
    server._socket.close()
    assert bool(warning) == warns
    if warns:
        for words in (
            "no TLS",
            "anybody with the token",
            f"ssh -L {server.port}:127.0.0.1:{server.port}",
        ):
            assert words in warning
