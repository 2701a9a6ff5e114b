"""The launcher files in deploy/: Ray's own schema accepts them, and their commands exist."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.validators import validator_for

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "deploy").glob("*.yaml"))


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    spec = importlib.util.find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    return json.loads((Path(spec.origin).parent / "autoscaler" / "ray-schema.json").read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_rays_launcher_accepts_the_file(path: Path, schema: dict[str, Any]):
    validator = validator_for(schema)(schema)
    assert list(validator.iter_errors(yaml.safe_load(path.read_text()))) == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_machine_gets_the_pinned_extras_and_one_thread_per_process(path: Path):
    content = yaml.safe_load(path.read_text())
    (install,) = content["setup_commands"]
    assert '-c constraints.txt -e ".[atari,cluster]"' in install
    starts = content["head_start_ray_commands"] + content["worker_start_ray_commands"]
    assert all("OMP_NUM_THREADS=1" in line for line in starts if "ray start" in line)


def test_there_is_a_launcher_for_clouds_and_one_for_own_machines():
    kinds = {yaml.safe_load(path.read_text())["provider"]["type"] for path in FILES}
    assert kinds == {"aws", "local"}
