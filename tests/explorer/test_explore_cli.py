"""visr explore, as a shell sees it."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli import visr
from visr.errors import UserError
from visr.explorer import serve


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "There is no run at nowhere"),
        (("nowhere", "--export", "atlas.pdf"), "not the name of an HTML file"),
        (("nowhere", "--skills", "3"), "--skills belongs to --export"),
        (("nowhere", "--export", "a.html", "--port", "1"), "--port belongs to serving"),
        (("nowhere", "--export", "a.html", "--skills", "1"), "skills = 1"),
        (("nowhere", "--port", "70000"), "port = 70000"),
    ],
)
def test_bad_input_to_explore_is_one_sentence(arguments: tuple[str, ...], words: str):
    answer = visr("explore", *arguments)
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "uvicorn" else found(name)
    )
    answer = visr("explore", "anywhere")
    assert answer.code == 2
    assert 'The explorer needs uvicorn: pip install "visr[explorer]".' in answer.err


def test_a_port_in_use_is_one_sentence(trained: Path):
    with serve.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port}: .*choose another port="):
            serve.listen("127.0.0.1", port)


def test_a_weak_token_of_ones_own_is_refused(trained: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(serve.TOKEN_VARIABLE, "secret")
    with pytest.raises(UserError, match="20 to 200 letters"):
        serve.Server(trained, port=0)


def test_it_serves_until_it_is_interrupted(trained: Path):
    command = [sys.executable, "-m", "visr", "explore", str(trained), "--json", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
    )
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    assert said["url"] == f"http://127.0.0.1:{said['port']}/?token={said['token']}"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0
    assert "Traceback" not in err


def test_every_launch_has_its_own_token(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(serve.TOKEN_VARIABLE, raising=False)
    assert len({serve._token() for _ in range(20)}) == 20
