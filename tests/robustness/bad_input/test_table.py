"""What a user can get wrong: exit code 2, one sentence that helps, nothing touched, and the page says so."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.bad_input import page
from tests.robustness.bad_input.cases import TABLE, Case
from tests.robustness.bad_input.files import snapshot

CASES = [case for cases in TABLE.values() for case in cases]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_bad_input_is_one_helpful_sentence_and_touches_nothing(
    case: Case, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    answer = page.ask(case, trained)
    assert (answer.code, answer.out, answer.changes) == (2, "", []), answer.err
    assert_one_sentence(answer.err)
    assert case.names in answer.err
    assert case.offers in answer.err
    if case.is_alike_everywhere:
        shown = page.PAGE.read_text(encoding="utf-8").splitlines()
        assert page.row(case, answer.err) in shown, f"stale page: run {page.COMMAND}"


def assert_one_sentence(err: str) -> None:
    assert err.startswith("visr: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    assert len(err) < 1_100
    assert err[:-1].isprintable()
    assert err.rstrip("\n").endswith((".", "?"))
    assert "Traceback" not in err


def test_the_page_shows_these_cases_and_no_others():
    shown = [line.split(" | ")[0] for line in page.PAGE.read_text("utf-8").splitlines()]
    ids = [case.id for case in CASES if case.is_alike_everywhere]
    rows = [name.removeprefix("| ") for name in shown if name.startswith("| ") and name != "| case"]
    assert rows == ids
    assert len(ids) == len(set(ids)) >= 80


PROCESSES = ("unknown command", "undecodable command", "gamma nan", "pickled reward", "task of nan")


@pytest.mark.parametrize("name", PROCESSES)
def test_a_shell_sees_the_same(name: str, trained: Path, tmp_path: Path):
    case = next(case for case in CASES if case.id == name)
    if "run" in shlex.split(case.line):
        shutil.copytree(trained, tmp_path / "run")
    if case.given is not None:
        case.given(tmp_path)
    before = snapshot(tmp_path)
    words = [os.fsencode(word) for word in shlex.split(case.line)]
    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"visr.cli", *words],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert_one_sentence(done.stderr.decode())
    assert case.names in done.stderr.decode()
    assert snapshot(tmp_path) == before
