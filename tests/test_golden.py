"""Short runs and commands produce the files and answers that tests/golden.json records.

Where this machine's arithmetic equals the recording machine's, every digest must be equal; elsewhere the
test compares file names, tensor names, shapes and types, CSV headers and row counts, JSON keys and types,
and those integers and strings that no learned weight decides, and nothing else.

    python -m tests.test_golden              lists the entries that differ
    python -m tests.test_golden --record     records all entries anew, and lists those that changed
    python -m tests.test_golden --record "random search" phase_two
                                             records anew only entries whose names contain one of the words

tests/golden.ini holds the commands. An entry is the answer of a command, or a file that a command wrote.
It maps names of values to `SHAPE #DIGEST`. A config.json other than the grid's holds what differs from it.
What random search decides has entries of its own: their names end in `(random search)`.
"""

from __future__ import annotations

import configparser
import contextlib
import csv
import functools
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import safetensors.torch
import torch

from visr.cli import main

RECORD = Path(__file__).with_name("golden.json")


def _commands() -> dict[str, str]:
    """The commands of tests/golden.ini by their names, in order."""
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    parser.read(RECORD.with_suffix(".ini"))
    return {
        name: text for name, text in parser["commands"].items() if name not in parser.defaults()
    }


COMMANDS = _commands()
_CLOCK = {"steps_per_second", "seconds", "seconds_by_agent", "speed_from", "started", "ended"}
_LEARNED = {
    *("best", "condition_number", "expected_return", "method", "num_episodes", "num_rewarded"),
    *("num_rewarded_episodes", "num_rewarded_steps", "num_seen", "words"),
}
"""Integers, strings and nulls that learned weights decide: another machine may not repeat them."""
_SEARCH = ("random search", "env-search", "by search", "searched.json")
_READ = {".csv", ".json", ".safetensors"}
_STORED = (
    *("atari/visr", "grid/rf-visr", "grid/visr", "grid/visr-no-gpi", "minatar/diayn-5"),
    *(
        "minatar/dqn-100k",
        "minatar/nsq-1m",
        "minatar/nsq-10m",
        "minatar/rf-visr",
        "minatar/uniform",
    ),
    *("minatar/visr", "minatar-1m/visr-plus", "minatar-untrained/visr-plus"),
)
"""The agents of results/ whose seeds 0 and 1 are reported: a fixed choice; new results change nothing."""
_UNREAD = {"timing.csv", "aggregates.json"}
"""Only their names are recorded: one is by the clock, the other repeats the answer of `visr report`."""

Entry = dict[str, str]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]


def _values(content: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Name and `SHAPE #DIGEST` of every value in a JSON object; integers and strings stand as they are."""
    key = name.rsplit("/", 1)[-1]
    if key == "checksum":
        return
    if key in _CLOCK:
        yield name, "by the clock"
    elif isinstance(content, dict) and content and not all(map(str.isdigit, content)):
        for inner in content:
            if inner == "num_steps" and "num_rewarded" in content:  # a task's; whole episodes
                yield f"{name}/{inner}", f"learned #{_digest(str(content[inner]).encode())}"
            else:
                yield from _values(content[inner], f"{name}/{inner}")
    elif isinstance(content, list) and content and isinstance(content[0], dict):
        for row in content:
            label = row.get("name", row.get("job"))
            if label is not None:
                yield from _values(row, f"{name}/{label}")
        rows = [row for row in content if "name" not in row and "job" not in row]
        for label in ("by search", "rows"):
            chosen = [r for r in rows if (label == "rows") != ("by search" in str(r.values()))]
            for key in dict.fromkeys(key for row in chosen for key in row):
                column = json.dumps([row.get(key) for row in chosen]).encode()
                yield f"{name}/{label}/{key}", f"{len(chosen)} rows #{_digest(column)}"
    else:
        digest = _digest(json.dumps(content).encode())
        if key in _LEARNED:
            yield name, f"learned #{digest}"
        elif isinstance(content, dict) and content:
            yield name, f"values for {', '.join(content)} #{digest}"
        elif isinstance(content, list) and not all(isinstance(item, str) for item in content):
            yield name, f"list[{len(content)}] #{digest}"
        elif isinstance(content, float):
            yield name, f"float #{digest}"
        else:
            yield name, json.dumps(content)


def _read(path: Path) -> Entry:
    """What a file holds: columns of a CSV, tensors of a safetensors file, values of a JSON file."""
    if path.suffix == ".csv":
        header, *rows = csv.reader(io.StringIO(path.read_text()))
        columns = zip(*rows, strict=True) if rows else ((),) * len(header)
        return {
            name: f"{len(rows)} rows #{_digest(chr(10).join(column).encode())}"
            for name, column in zip(header, columns, strict=True)
            if name not in {*_CLOCK, "checksum"}
        }
    if path.suffix == ".safetensors":
        described = {
            name: (
                f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}",
                _digest(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()),
            )
            for name, tensor in sorted(safetensors.torch.load_file(path).items())
        }
        adam = {name: described.pop(name) for name in [*described] if re.search(r"\badam\.", name)}
        if adam:
            shapes = _digest(str([(name, shape) for name, (shape, _) in adam.items()]).encode())
            described["*adam.*"] = (
                f"{len(adam)} tensors with shapes {shapes}",
                _digest(str(adam).encode()),
            )
        for name in described:
            if name.endswith("env.games"):  # text of the games' states; its length varies
                described[name] = ("uint8", described[name][1])
        return {name: f"{shape} #{digest}" for name, (shape, digest) in described.items()}
    return dict(_values(json.loads(path.read_text())))


def _split(name: str, entry: Entry) -> dict[str, Entry]:
    """Give what random search decides an entry of its own."""
    searched = {k: v for k, v in entry.items() if any(word in name + k for word in _SEARCH)}
    if searched:  # a comparison of methods: search may win it
        searched |= {key: entry[key] for key in ("/best", "/words") if key in entry}
    rest = {k: v for k, v in entry.items() if k not in searched}
    parts = {name: rest, f"{name} (random search)": searched}
    return {part: values for part, values in parts.items() if values}


def _files(place: Path) -> dict[str, Entry]:
    """An entry for the names in every directory, and one for every file that has no clock in it."""
    entries: dict[str, Entry] = {}
    files = [path.relative_to(place) for path in sorted(place.rglob("*")) if path.is_file()]
    newest = {path.parent: path for path in files}
    for path in files:
        if "tensorboard" in path.parts or path.suffix == ".lock":
            continue
        entries.setdefault(f"{path.parts[0]}: names of files", {})[str(path)] = "present"
        is_old = path.parent.name in ("checkpoints", "replay") and newest[path.parent] != path
        if path.suffix in _READ and path.name not in _UNREAD and not is_old:
            entries |= _split(str(path), _read(path))
    first = entries["grid/config.json"]
    for name in entries:
        if name.endswith("/config.json") and name != "grid/config.json":
            entries[name] = {k: v for k, v in entries[name].items() if v != first.get(k)}
    return entries


def _answer(command: str) -> Entry:
    """The exit code and the JSON object that a command prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(shlex.split(command))
    printed = json.loads(out.getvalue()) if out.getvalue() else {}
    return {"exit code": str(code), **dict(_values(printed))}


def observe(place: Path) -> dict[str, Entry]:
    """Run all commands in an empty directory; return all entries."""
    torch.set_num_threads(1)
    entries: dict[str, Entry] = {}
    for agent in _STORED:
        kept = RECORD.parents[1] / "results" / agent
        for run in kept.glob("*/seed-[01]"):
            shutil.copytree(run, place / "results" / agent / run.relative_to(kept))
    work = place / "work"
    work.mkdir()
    with contextlib.chdir(work):
        for name, command in COMMANDS.items():
            entries |= _split(name, _answer(command))
        return entries | _files(work)


@functools.cache
def fingerprint() -> str:
    """A digest of fixed arithmetic: two machines that share it compute the same floats."""
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 64, generator=random, requires_grad=True)
    images = torch.randn(4, 4, 20, 20, generator=random)
    kernel = torch.randn(16, 4, 3, 3, generator=random, requires_grad=True)
    adam = torch.optim.Adam([weight, kernel], 1e-2)
    for _ in range(4):
        hidden = torch.nn.functional.conv2d(images, kernel, stride=2).relu().flatten(1)[:, :64]
        loss = (hidden @ weight).tanh().exp().log_softmax(-1).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    matrix = weight.detach().double().numpy()
    solved = np.linalg.solve(matrix @ matrix.T + np.eye(64), matrix)
    parts = (weight.detach().numpy(), kernel.detach().numpy(), solved, np.exp(solved))
    half = (weight.bfloat16() @ weight.bfloat16()).float().detach().numpy()
    packages = ("torch", "numpy", "gymnasium", "ale-py", "stable-baselines3")
    others = f"{torch.cuda.is_available()} {[metadata.version(name) for name in packages]}"
    return _digest(b"".join(part.tobytes() for part in (*parts, half)) + others.encode())


def differences(recorded: Entry, seen: Entry, is_exact: bool) -> list[str]:
    """Values of an entry that differ from the record."""

    def wanted(entry: Entry, name: str) -> str:
        text = entry.get(name, "absent")
        return text if is_exact else text.split(" #")[0]

    pairs = {n: (wanted(recorded, n), wanted(seen, n)) for n in {**recorded, **seen}}
    return [f"{n}: recorded {a}, now {b}" for n, (a, b) in pairs.items() if a != b]


def _recorded() -> dict[str, Any]:
    empty = {"fingerprint": "", "entries": {}}
    return json.loads(RECORD.read_text()) if RECORD.exists() else empty


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entry]:
    return observe(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", _recorded()["entries"])
def test_an_entry_is_as_recorded(name: str, observed: dict[str, Entry]):
    record = _recorded()
    is_exact = record["fingerprint"] == fingerprint()
    assert not differences(record["entries"][name], observed.get(name, {}), is_exact)


def test_this_machine_computes_as_the_recording_one():
    if _recorded()["fingerprint"] != fingerprint():
        pytest.skip("other arithmetic or packages than recorded: only structure is compared")


def test_no_file_or_answer_is_unrecorded(observed: dict[str, Entry]):
    assert not observed.keys() - _recorded()["entries"].keys()


def record(words: list[str], is_writing: bool) -> None:
    """Print the entries that changed; write those whose names contain one of the words."""
    old = _recorded()
    if words and is_writing and old["fingerprint"] != fingerprint():
        sys.exit("This machine computes other floats than the recording one; record all entries.")
    with tempfile.TemporaryDirectory() as place:
        new = observe(Path(place))
    kept: dict[str, Entry] = dict(old["entries"])
    for name in sorted({**kept, **new}):
        changed = differences(kept.get(name, {}), new.get(name, {}), is_exact=True)
        if changed and (not words or any(word in name for word in words)):
            print(f"{name}: {len(changed)} values differ", *changed[:5], sep="\n    ")
            kept[name] = new.get(name, {})
    kept = {name: entry for name, entry in sorted(kept.items()) if entry}
    if is_writing:
        content = {"fingerprint": fingerprint(), "entries": kept}
        RECORD.write_text(json.dumps(content, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    options = [word for word in sys.argv[1:] if word != "--record"]
    record(options, is_writing="--record" in sys.argv)
