"""Write the reference pages that are read from the code: commands, settings, presets and errors.

A Sphinx extension. The pages are written to docs/reference/generated/ before Sphinx reads its sources.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import os
import re
import tempfile
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tyro

from visr import cli, config
from visr.commands import options
from visr.commands.pretrain import field_texts
from visr.config import Bound, presets

ROOT = Path(__file__).parent.parent
TARGET = Path(__file__).parent / "reference/generated"
ERRORS = ROOT / "tests/robustness/bad_input/expected.json"
_OTHER_PLACES = {
    "pack": "visr.commands.sharing:Pack",
    "push": "visr.commands.sharing:Push",
    "pull": "visr.commands.sharing:Pull",
    "reproduce": "visr.paper.reproduce.command:Options",
}
_PRETRAIN = "Every setting of [Configuration](configuration.md) is a flag, too: `num_steps` is `--num-steps`."


@dataclasses.dataclass(frozen=True)
class Field:
    """One field of a dataclass, ready to be shown."""

    name: str
    kind: str
    default: str
    text: str
    is_positional: bool
    bound: str


def options_of(verb: str) -> type:
    """The dataclass from which tyro makes the parser of a verb."""
    module, _, name = _OTHER_PLACES.get(verb, f"visr.commands.{verb}:Options").partition(":")
    return getattr(importlib.import_module(module), name)


def fields_of(cls: type) -> Iterator[Field]:
    """The fields of a dataclass and of the dataclasses in it."""
    hints, texts = typing.get_type_hints(cls, include_extras=True), field_texts(cls)
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            assert isinstance(hint, type)
            yield from fields_of(hint)
            continue
        extras = getattr(hint, "__metadata__", ())
        named = next((e for e in extras if hasattr(e, "metavar")), None)
        help_text = getattr(named, "help", None) or texts.get(field.name, "")
        name = getattr(named, "name", None) or field.name
        is_positional = tyro.conf.Positional in extras
        if is_positional and getattr(named, "metavar", None):
            name = named.metavar  # pyright: ignore
        yield Field(name, _kind(hint), _default(field), help_text, is_positional, _bound(extras))


def _kind(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(hint))
    inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
    if inner and typing.get_origin(hint) is tuple:
        return f"{_kind(inner[0])} ..."
    if inner:
        return " or ".join(map(_kind, inner))
    names = {int: "whole number", float: "number", str: "text", bool: "yes or no"}
    return names.get(hint, str(hint))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "required"
    if value is None or value == ():
        return ""
    if isinstance(value, tuple):
        return "`" + " ".join(map(str, value)) + "`"
    return f"`{value:,}`" if type(value) is int else f"`{value}`"


def _bound(extras: tuple[Any, ...]) -> str:
    bound = next((e for e in extras if isinstance(e, Bound)), None)
    if bound is None:
        return ""
    low = f"above {bound.low:g}" if bound.is_open else f"{bound.low:g}"
    return f"{low} to {bound.high:,g}" if bound.high < 10**6 else f"{low} or more"


# ---- pages


def commands_page() -> str:
    """One section per verb."""
    lines = [
        "# Command line",
        "",
        "Made from the parsers of `visr`: `visr VERB --help` prints the same.",
        "",
    ]
    lines += ["| verb | what it does |", "|---|---|"]
    lines += [f"| [`visr {verb}`](#visr-{verb}) | {text} |" for verb, text in cli.VERBS.items()]
    lines += [
        "",
        "Results go to stdout and everything else to stderr. Exit codes: 0 success, 2 bad input, 130 and 143",
        "stopped by a signal, 1 otherwise. Whole numbers may be written as `500k` or `2M`.",
    ]
    for verb in cli.VERBS:
        lines += ["", *_command(verb)]
    return "\n".join(lines)


def _command(verb: str) -> list[str]:
    cls = options_of(verb)
    found = list(fields_of(cls))
    if verb == "pretrain":
        settings = {f.name for section in _sections() for f in dataclasses.fields(section)}
        found = [f for f in found if f.name not in settings]
    usage = " ".join(["visr", verb, *(f.name for f in found if f.is_positional), "[options]"])
    lines = [
        f"## visr {verb}",
        "",
        "```text",
        usage,
        "```",
        "",
        inspect.cleandoc(cls.__doc__ or ""),
    ]
    if verb in options.EXAMPLES:
        lines += ["", "```text", options.EXAMPLES[verb], "```"]
    if verb == "pretrain":
        lines += ["", _PRETRAIN]
    lines += ["", "| option | value | default | meaning |", "|---|---|---|---|"]
    for f in found:
        name = f.name if f.is_positional else f"--{f.name.replace('_', '-')}"
        lines.append(f"| `{name}` | {f.kind} | {f.default} | {_cell(f.text)} |")
    return lines


def _sections() -> list[type]:
    hints = typing.get_type_hints(config.RunConfig)
    return [hints[name] for name in config.SECTIONS]


def configuration_page() -> str:
    """Every setting with its default and bound, by section; then the presets."""
    lines = [
        "# Configuration",
        "",
        "Made from the dataclasses in `visr.config`. The defaults are the paper's; a preset or an",
        "environment may choose others.",
        "",
        "A setting is a flag of `visr pretrain`, an argument of `visr.pretrain`, or a line of a TOML file",
        "for `--config`. `visr pretrain ENV --print-config` prints all of them as such a file.",
    ]
    for section in [*_sections(), config.FinetuneConfig]:
        lines += ["", f"## {section.__name__}", "", inspect.cleandoc(section.__doc__ or ""), ""]
        lines += ["| setting | value | default | bound | meaning |", "|---|---|---|---|---|"]
        for f in fields_of(section):
            lines.append(f"| `{f.name}` | {f.kind} | {f.default} | {f.bound} | {_cell(f.text)} |")
    lines += [
        "",
        "## Presets",
        "",
        "`visr pretrain --preset NAME`, `visr.pretrain(preset=NAME)`:",
        "",
    ]
    lines += ["| preset | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(text)} |" for name, (text, _) in presets.PRESETS.items()]
    return "\n".join(lines)


def errors_page() -> str:
    """What visr says to bad input, by verb, as the tests record it."""
    recorded: dict[str, str] = json.loads(ERRORS.read_text())
    by_verb: dict[str, list[tuple[str, str]]] = {}
    for words, sentence in recorded.items():
        verb = words.split(" ")[0]
        by_verb.setdefault(verb if verb in cli.VERBS else "other", []).append((words, sentence))
    lines = [
        "# Error messages",
        "",
        "Bad input ends with exit code 2 and one sentence that names the value and the way out. In Python",
        "it is `visr.UserError` with the same sentence. The tests give these inputs to `visr` and compare",
        "what it prints; below each sentence is one command that causes it.",
    ]
    for verb in [*cli.VERBS, "other"]:
        if verb not in by_verb:
            continue
        lines += ["", f"## {'Other words' if verb == 'other' else f'visr {verb}'}", ""]
        seen: set[str] = set()
        for words, sentence in by_verb[verb]:
            if sentence in seen:
                continue
            seen.add(sentence)
            lines += [f"- {_cell(sentence)}", f"  <br>{_code('visr ' + words)}"]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text for a Markdown table or list: one line, and no character that Markdown would read."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(p if p.startswith("`") else _escaped(p) for p in parts).replace("|", "\\|")


def _escaped(text: str) -> str:
    return re.sub(r"([*_<>\[\]$#\\])", r"\\\1", text)


def _code(words: str) -> str:
    line = " ".join(words.split())
    fence = "``" if "`" in line else "`"
    return f"{fence} {line[:160]} {fence}" if fence == "``" else f"`{line[:160]}`"


PAGES = {"cli": commands_page, "configuration": configuration_page, "errors": errors_page}


def write_pages(target: Path = TARGET) -> None:
    """Write every page whose text has changed."""
    target.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        path, text = target / f"{name}.md", make() + "\n"
        if not path.exists() or path.read_text() != text:
            with tempfile.NamedTemporaryFile("w", dir=target, delete=False) as file:
                file.write(text)
            os.replace(file.name, path)  # two builds may write at the same time


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda _: write_pages())
    return {"parallel_read_safe": True}
