"""The workflows pin every action by its commit, and only the release may sign."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parent.parent / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_action_is_pinned_by_a_commit_with_its_version_beside_it(file: Path):
    used = re.findall(r"uses: (.*)", file.read_text(encoding="utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_workflow_holds_a_secret_or_may_write_by_default(file: Path):
    text = file.read_text(encoding="utf-8")
    assert "secrets." not in text
    assert re.search(r"^permissions:( \{\}|\n  contents: read)$", text, re.MULTILINE)


def test_only_the_job_that_publishes_may_sign_and_it_attests():
    text = next(file for file in FILES if file.name == "release.yml").read_text(encoding="utf-8")
    build, publish = text.split("  publish:")
    assert "id-token" not in build
    assert "id-token: write" in publish
    assert "attestations: true" in publish
