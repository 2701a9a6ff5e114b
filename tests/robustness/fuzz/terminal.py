"""Names from outside, printed by commands: no control character reaches the terminal, no line is forged."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.robustness.fuzz import noise
from visr.cli import main
from visr.storage.files import read_json
from visr.storage.run_dir import RunDir
from visr.training import checkpoint

FORGED = "visr: all is well"
"""A line that no command prints."""
_PIECES = (
    "\x1b[2J", "\x1b]0;owned\x07", "\x9b31m", "\u202e", "\u2066", "\u2028", "\u0085", "\r", "\n",
    f"\n{FORGED}\n", f"\r{FORGED}", "\x00", "\x08", "\x7f", "\u200b", "\ufeff", "\ud800", "\udcff",
    "[red]x[/]", "%s", "{0}", "a", "goal", " ", "é",
)  # fmt: skip
_TASK_FIELDS = ("name", "method", "env", "w", "format", "prompt")


class Terminal:
    """A run with odd names in its files, and the commands that print them."""

    def __init__(self, run: Path, place: Path) -> None:
        self._place = place / "terminal"
        self._run = shutil.copytree(run, self._place / "run")
        main(["infer", str(self._run), "--reward", "row", "--name", "goal"])
        self._task = read_json(self._run / "tasks" / "goal.json")
        self._config = read_json(self._run / "config.json")
        self._ways: tuple[Callable[[str, random.Random], list[str] | None], ...] = (
            *(self._in_task, self._in_task_file, self._in_config, self._in_metadata),
            *(self._in_path, self._in_words, self._in_packed),
        )

    def make(self, random: random.Random) -> tuple[int, str, int]:
        """A way in, an odd text, and a seed."""
        pieces = [*_PIECES, *noise.TEXTS]
        text = "".join(random.choice(pieces) for _ in range(random.randrange(1, 5)))
        return random.randrange(len(self._ways)), text, random.randrange(2**31)

    def feed(self, given: tuple[int, str, int]) -> int:
        """Print it; 1 if the command was refused."""
        way, text, seed = given
        out = io.StringIO()
        handler = logging.StreamHandler(out)
        logging.getLogger("visr").addHandler(handler)
        code = 0
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                words = self._ways[way](text, random.Random(seed))
                code = 0 if words is None else main(words)
        finally:
            logging.getLogger("visr").removeHandler(handler)
            self._restore()
        check(out.getvalue())
        return int(code != 0)

    def _restore(self) -> None:
        shutil.rmtree(self._run / "tasks")
        (self._run / "tasks").mkdir()
        (self._run / "tasks" / "goal.json").write_text(json.dumps(self._task))
        (self._run / "config.json").write_text(json.dumps(self._config))

    def _in_task(self, text: str, random: random.Random) -> list[str]:
        changed = self._task | {random.choice(_TASK_FIELDS): text}
        (self._run / "tasks" / "goal.json").write_text(json.dumps(changed))
        return [
            "task",
            *random.choice((["list", str(self._run)], ["list", str(self._run), "--json"])),
        ]

    def _in_task_file(self, text: str, random: random.Random) -> list[str] | None:
        with contextlib.suppress(OSError, ValueError):
            target = self._run / "tasks" / f"{text.replace('/', '')}.json"
            target.write_text(random.choice((json.dumps(self._task), "{")))
            return ["task", "list", str(self._run)]
        return None

    def _in_config(self, text: str, random: random.Random) -> list[str]:
        config = json.loads(json.dumps(self._config))
        kind = random.randrange(4)
        if kind == 0:
            config["config"]["env"] = text
        elif kind == 1:
            config["config"][text] = {}
        elif kind == 2:
            config["config"]["agent"][text] = text
        else:
            config["config"]["agent"]["torso"] = text
        (self._run / "config.json").write_text(json.dumps(config))
        return [*random.choice((["task", "list"], ["pretrain", "--resume"])), str(self._run)]

    def _in_metadata(self, text: str, _: random.Random) -> None:
        """Log what a checkpoint says about tables."""
        path, run = self._place / "000000000100.safetensors", RunDir(self._run)
        tables = json.dumps({text: "x", "metrics.csv": text})
        path.write_bytes(_tensors({text: text, "tables": tables}))
        checkpoint.warn_of_changed_tables(run, path)
        logging.getLogger("visr").warning("visr: %s is odd.", text)

    def _in_path(self, text: str, random: random.Random) -> list[str] | None:
        name = os.fsdecode(os.fsencode(text.encode("utf-8", "replace")).replace(b"\0", b""))
        verb = random.choice(
            (["task", "list"], ["report"], ["pretrain", "--resume"], ["finetune", "--resume"])
        )
        return [*verb, str(self._place / "none" / name)]

    def _in_words(self, text: str, random: random.Random) -> list[str]:
        words = random.choice((["{}"], ["task", "{}"], ["list", "{}"], ["pretrain", "{}", "--num-steps", "x"],
                               ["report", "--{}"], ["infer", "{}", "--reward", "{}"]))  # fmt: skip
        return [word.replace("{}", text) for word in words]

    def _in_packed(self, text: str, random: random.Random) -> list[str]:
        path = self._place / "packed.safetensors"
        card = json.dumps({"format": 1, "name": text, "about": text, "recipe": [text]})
        words = random.choice(
            ({"card": card}, {"card": text}, {text: text}, {"card": card, "tasks": text})
        )
        path.write_bytes(_tensors(words))
        return ["task", "list", str(path)]


def _tensors(words: dict[str, Any]) -> bytes:
    header = json.dumps({"__metadata__": words}).encode()
    return struct.pack("<Q", len(header)) + header


def check(printed: str) -> None:
    """What a terminal gets: printable characters and our own line breaks."""
    odd = {letter for letter in printed if not letter.isprintable() and letter != "\n"}
    assert not odd, (odd, printed)
    assert not [line for line in printed.split("\n") if line.startswith(FORGED)], printed
    printed.encode()
