"""The command line: one function per verb; each calls one library function."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from visr.errors import UserError, one_line
from visr.training.progress import Stopped

VERBS = {
    "pretrain": "learn without rewards in an environment",
    "infer": "turn a reward into a task for a pre-trained run",
    "finetune": "reinforcement learning on the true reward, from a pre-trained psi",
    "evaluate": "measure what a task's policy is worth: exactly on the grid, by episodes elsewhere",
    "play": "watch a task or a skill, or film it",
    "task": "list, mix and compare tasks",
    "export": "write a task's policy as an ONNX file",
    "reproduce": "run the paper's experiments, and ours beyond it, from a ledger",
    "report": "draw a run, or tabulate many: figures and one HTML page",
    "explore": "open a page on a run: paint rewards, watch tasks, compare skills",
    "bench": "measure speed against the bare cost of the matrix products",
    "doctor": "say whether an environment fits",
    "list": "name environments, presets, rewards, models",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; 0 is success, 2 is input that cannot be used, 130 and 143 are clean stops."""
    args = list(sys.argv[1:] if arguments is None else arguments)
    _occupy_closed_streams()
    try:
        code = _run(args)
        if sys.stdout is not None:
            sys.stdout.flush()  # a reader who has gone or a full disk shows here, not at the very end
        return code
    except UserError as error:
        return _refuse(str(error))
    except Stopped as stop:
        _say(str(stop))
        return 128 + stop.signal_number
    except KeyboardInterrupt:
        _say("Interrupted.")
        return 130
    except BrokenPipeError:
        _abandon(sys.stdout)
        return 1
    except OSError as error:
        _abandon(sys.stdout)
        reason = error.strerror or str(error)
        where = "the output" if error.filename is None else error.filename
        return _refuse(f"The system refuses {where}: {reason}; choose another place.")
    except (MemoryError, RuntimeError) as error:
        if not _is_lack_of_memory(error):
            raise
        return _refuse("There is not enough memory for this here; ask for smaller sizes or counts.")


def _is_lack_of_memory(error: Exception) -> bool:
    """Torch says it with a RuntimeError."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error)


def _occupy_closed_streams() -> None:
    """Give closed standard streams to nobody: else a run's file would get their number, and others' words."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


def _refuse(text: str) -> int:
    _say(_sentence(text))
    return 2


def _say(sentence: str) -> None:
    """To whoever listens; if nobody can, the exit code still tells."""
    try:
        print(f"visr: {sentence}", file=sys.stderr, flush=True)
    except OSError:
        _abandon(sys.stderr)


def _abandon(stream: TextIO | None) -> None:
    """Point a stream elsewhere, so that what it still holds does not complain when Python closes it."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        print(_help())
        return 0
    if args[0] == "--version":
        from visr import __version__

        print(f"visr {__version__}")
        return 0
    verb, rest = args[0], args[1:]
    if verb not in VERBS:
        import difflib

        near = difflib.get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean `visr {near[0]}`?" if near else "`visr --help` lists what there is."
        raise UserError(f"There is no command `{verb}`; {hint}")
    try:
        return _load(verb)(rest)
    except SystemExit as stop:  # how the options' parser says that help has been given
        return int(stop.code or 0)


def _load(verb: str) -> Callable[[list[str]], int]:
    """Each verb lives in a module of its own, so that none pays for the imports of another."""
    import importlib

    module = "visr.paper.reproduce.command" if verb == "reproduce" else f"visr.commands.{verb}"
    return importlib.import_module(module).run


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {text}" for verb, text in VERBS.items())
    return (
        "visr: reward-free pre-training with fast task inference\n\n"
        "usage: visr COMMAND [--help] ...\n\n"
        f"{verbs}\n\n"
        "a first run:\n"
        "  visr pretrain visr/Grid-v0 --preset demo --out runs/first\n"
        "  visr infer runs/first --reward boxes:7\n"
        "  visr evaluate runs/first boxes-7\n"
        "  visr report runs/first"
    )


def _sentence(text: str) -> str:
    """One line with a full stop; its first letter stays, for it may begin a path or a field's name."""
    line = one_line(text)
    return line if line.endswith((".", "?", "!")) else f"{line}."


if __name__ == "__main__":
    sys.exit(main())
