"""Bad input: exit code 2, one sentence that names the mistake and a way out, and no file touched."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.bad_input.case import Case, ask, assert_one_sentence
from tests.robustness.bad_input.cases import CASES, EXPECTED, sentence
from tests.robustness.bad_input.files import snapshot

RECORDED = json.loads(EXPECTED.read_text("utf-8"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_bad_input_is_one_helpful_sentence_and_touches_nothing(
    case: Case, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    answer = ask(case, trained)
    assert (answer.code, answer.out, answer.changes) == (2, "", []), answer.err
    assert_one_sentence(answer.err)
    assert case.names in answer.err
    assert case.offers in answer.err
    assert sentence(answer.err) == RECORDED.get(case.id)


def test_every_case_has_one_recorded_sentence():
    assert [case.id for case in CASES] == list(RECORDED)


@pytest.mark.parametrize("line", ["frobnicate", "'\udcff'", "evaluate run task.json (w of NaN)"])
def test_a_shell_prints_the_recorded_sentence(line: str, trained: Path, tmp_path: Path):
    case = next(case for case in CASES if line in (case.line, case.id))
    if case.needs_run:
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
    assert sentence(done.stderr.decode()) == RECORDED[case.id]
    assert snapshot(tmp_path) == before
