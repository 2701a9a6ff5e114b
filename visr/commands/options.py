"""Parse command lines into dataclasses (tyro); an error is one sentence."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import io
import re
import sys
from typing import Annotated, Any, TextIO, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from visr.config.load import whole_number
from visr.errors import HelpShown, UserError

T = TypeVar("T")
Run = Annotated[
    str,
    tyro.conf.Positional,
    tyro.conf.arg(metavar="RUN", help="Directory of a run, a packed file, or pretrained:NAME."),
]
Device = Annotated[str, tyro.conf.arg(help="Device of the networks.")]
Env = Annotated[
    str | None,
    tyro.conf.arg(help="Environment to act in, for a run that learnt from a dataset without one."),
]
Json = Annotated[bool, tyro.conf.arg(help="Print the result as one JSON object.")]
EXAMPLES = {
    "infer": 'visr infer runs/first --reward "row > 5" --name bottom',
    "evaluate": "visr evaluate runs/first bottom",
    "play": "visr play runs/first --task bottom --video bottom.gif",
    "refine": "visr refine runs/first bottom --seconds 5",
    "finetune": "visr finetune runs/first --task bottom --num-steps 100k",
    "task": "visr task mix a.json 0.7 b.json 0.3 --out both.json",
    "export": "visr export runs/first bottom bottom.onnx",
    "report": "visr report runs/first",
    "explore": "visr explore runs/first",
    "bench": "visr bench grid",
    "doctor": "visr doctor CartPole-v1",
    "list": "visr list envs",
    "reproduce": "visr reproduce minatar --quick --out results/mine",
}
"""One example for the help of each verb; `pretrain` has a help of its own."""
_UNION = re.compile(
    r"no type matching \{None\}\|(INT|FLOAT) could be instantiated from \[(.*?)\]\.?"
)
"""How tyro says that a number that may be missing is not a number."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NO_DEFAULT = re.compile(r"\(default:(?:\x1b\[[0-9;]*m|[\s│|])*None\)")
"""May be broken into two lines of a frame."""
MOST = 2**31 - 1
"""The largest seed and count that every library takes."""


_NUMBERS = ConstructorRegistry()


@_NUMBERS.primitive_rule
def _whole_numbers(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    if info.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: whole_number(words[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )


def parse(
    kind: type[T],
    args: list[str],
    verb: str,
    default: T | None = None,
    may_be_negative: tuple[str, ...] = (),
) -> T:
    """The options of a verb; a mistake is a UserError instead of tyro's framed page.

    Values of the flags in `may_be_negative` may start with a minus sign: --reward "-abs(x0)".
    """
    args = _joined(args, may_be_negative)
    page, shown = io.StringIO(), _HelpPage(sys.stdout)
    extra: dict[str, Any] = {} if default is None else {"default": default}
    doc = inspect.cleandoc(kind.__doc__ or "")
    description = f"{doc}\n\nExample: {EXAMPLES[verb]}" if verb in EXAMPLES else doc
    try:
        with contextlib.redirect_stderr(page), contextlib.redirect_stdout(shown):
            return tyro.cli(
                kind,
                args=args,
                prog=f"visr {verb}",
                description=description,
                registry=_NUMBERS,
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
                **extra,
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            print(_without_none(shown.getvalue()), end="")
            raise HelpShown from None
        raise UserError(_first_sentence(page.getvalue(), verb)) from None


class _HelpPage(io.StringIO):
    """Keeps what tyro prints, which depends on where it will be shown."""

    def __init__(self, target: TextIO) -> None:
        super().__init__()
        self._target = target

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of the terminal: frames are dashes where it is not UTF-8."""
        return getattr(self._target, "encoding", None) or "ascii"

    def isatty(self) -> bool:
        """Whether colours are shown."""
        return self._target.isatty()


def _without_none(page: str) -> str:
    """A page of help without "{None}|" and "(default: None)", which say that a flag may be left out."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\s│|]", " ", _COLOUR.sub("", found[0]))

    lines = _NO_DEFAULT.sub(blank, page).split("\n")
    for none, choice in ((r"\{None\}\|(\S+)", r"\1       "), (r"\{None,(\S+)", r"{\1     ")):
        lines = [re.sub(none, choice, line) for line in lines]
    was_text = zip(lines, page.split("\n"), strict=True)
    return "\n".join(new for new, old in was_text if new.strip(" │|") or not old.strip(" │|"))


def _joined(args: list[str], flags: tuple[str, ...]) -> list[str]:
    """FLAG VALUE as FLAG=VALUE where the value would be read as another flag."""
    joined: list[str] = []
    for word in args:
        if joined and joined[-1] in flags and word.startswith("-") and not word.startswith("--"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def refuse(chosen: object, names: tuple[str, ...], reason: str) -> None:
    """Refuse options that would have no effect here."""
    for name in names:
        if getattr(chosen, name) is not getattr(type(chosen), name):  # not the default
            raise UserError(f"--{name.replace('_', '-')} {reason}; leave it out.")


def check_range(chosen: object, names: tuple[str, ...], low: int, high: int = MOST) -> None:
    """Refuse numbers outside of [low, high]; options that were not given are None."""
    for name in names:
        value = getattr(chosen, name)
        if value is not None and not low <= value <= high:
            raise UserError(f"{name} = {value} must lie between {low} and {high}.")


def given(**fields: Any) -> dict[str, Any]:
    """The fields whose options were given; the others are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _first_sentence(page: str, verb: str) -> str:
    """The first complaint on tyro's framed page, and the option that it suggests."""
    complaint, *others = _paragraphs(page) or ["the options could not be read"]
    if missing := re.match(r"Missing from visr \w+: (--[\w-]+|[A-Z][\w.]*)", complaint):
        example = f"for example: {EXAMPLES[verb]}" if verb in EXAMPLES else "see its help"
        return f"`visr {verb}` needs {missing[1]}; {example}"
    if missing := re.match(r"Missing from visr \w+: \{([\w,-]+)\}", complaint):
        choices = missing[1].replace(",", ", ")
        return f"`visr {verb}` needs one of {choices}; `visr {verb} --help` says what they do"
    complaint = _UNION.sub(r"\2 is not a number", complaint)
    for python in (" Got errors:", "; use sys."):  # the rest is about Python
        complaint = complaint.partition(python)[0]
    hints = [text for text in others if text.startswith("Perhaps you")]
    meant = [option for text in hints for option in re.findall(r"--[\w-]+", text)]
    given = re.findall(r"--[\w-]+", complaint)
    near = difflib.get_close_matches(given[0], meant, n=1, cutoff=0) if given else []
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{complaint.rstrip('.')}; {hint}`visr {verb} --help` lists the options."


def _paragraphs(page: str) -> list[str]:
    """The texts between the lines of a frame, without its title; without UTF-8 the lines are dashes."""
    paragraphs: list[list[str]] = [[]]
    for line in page.splitlines():
        text = line.strip(" │")
        if text.startswith("╭"):
            continue
        if text and set(text) <= set("-─╰╯"):
            paragraphs.append([])
        elif text:
            paragraphs[-1].append(text)
    texts = [" ".join(lines) for lines in paragraphs if lines]
    return texts if "╭" in page else texts[1:]
