"""The command line: finds the verb's module, runs it, and turns errors into one sentence and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from visr import startup_checks, terminal, working_directory
from visr.errors import (
    HelpShown,
    Stopped,
    UserError,
    command_line,
    did_you_mean,
    one_line,
    short_repr,
)

VERBS = {
    "pretrain": "train without rewards in an environment",
    "infer": "turn a reward into a task w for a pre-trained run",
    "refine": "improve a task's policy from recorded steps, without the environment",
    "finetune": "train further on the true reward, starting from a pre-trained psi",
    "evaluate": "evaluate a task's policy: exactly on the grid, by episodes elsewhere",
    "play": "play episodes of a task or a skill, or record a video",
    "task": "list, mix and compare tasks",
    "export": "write a task's policy as an ONNX file",
    "pack": "write a run into one safe file to share",
    "push": "upload a run to a Hugging Face hub repository",
    "pull": "download a run from a Hugging Face hub repository",
    "reproduce": "run the paper's experiments, or ours beyond it",
    "report": "figures and one HTML page from one run or from many",
    "explore": "open a web page for a run: paint rewards, watch tasks, compare skills",
    "bench": "measure training speed against the bare cost of the networks",
    "doctor": "check whether an environment can be used",
    "list": "list environments, presets, rewards or models",
}
_WITHOUT_TORCH = ("list", "report")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. Exit codes: 0 success, 2 bad input, 130 and 143 stopped by a signal, 1 otherwise."""
    args = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    if arguments is None:  # a process of our own
        terminal.guard_process()
        working_directory.ignore_settings()
        if args[:1] == ["explore"] or args[:2] == ["bench", "explorer"]:
            # numpy reads it when it is imported; a stroke's matrices are too small for several threads
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with command_line():
        return _exit_code(args)


def _exit_code(args: list[str]) -> int:
    try:
        code = _run(args)
        if sys.stdout is not None:
            sys.stdout.flush()  # a closed pipe or a full disk raises here, not at interpreter exit
        return code
    except UserError as error:
        return _refuse(str(error))
    except Stopped as stop:
        _say(str(stop))
        return 128 + stop.signal_number
    except KeyboardInterrupt:
        _say("Interrupted.")
        return 130
    except SystemExit as stop:  # no code of ours calls it
        if isinstance(stop.__context__, BrokenPipeError):  # rich does
            _discard(sys.stdout)
            return 1
        code = short_repr(stop.code)
        return _refuse(
            f"Code that visr called ended it with sys.exit({code}); let it raise instead"
        )
    except BrokenPipeError:
        _discard(sys.stdout)
        return 1
    except OSError as error:
        _discard(sys.stdout)
        reason = error.strerror or str(error)
        where = "the output" if error.filename is None else error.filename
        return _refuse(f"Cannot access {where}: {reason}; choose another place.")
    except (ImportError, MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        return _refuse("There is not enough memory; ask for smaller sizes or counts.")


def _is_out_of_memory(error: Exception) -> bool:
    """torch raises RuntimeError when it cannot allocate; libraries cannot be loaded without memory."""
    words = ("allocate memory", "failed to map segment")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def _open_closed_streams() -> None:
    """Open /dev/null on closed standard streams, so that no run file gets descriptor 0, 1 or 2."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # open() takes the lowest free number: this one
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


def _refuse(text: str) -> int:
    _say(_sentence(text))
    return 2


def _say(sentence: str) -> None:
    """Print on stderr; if that fails, the exit code is all that is left."""
    try:
        terminal.say(f"visr: {sentence}", flush=True)
    except OSError:
        _discard(sys.stderr)


def _discard(stream: TextIO | None) -> None:
    """Point a stream at /dev/null, so that its buffered text raises no error when Python closes it."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        terminal.show_lines(_help())
        return 0
    if args[0] == "--version":
        from visr import __version__

        terminal.show(f"visr {__version__}")
        return 0
    verb, rest = args[0], args[1:]
    if verb not in VERBS:
        hint = did_you_mean(verb, VERBS, "`visr --help` lists the commands.", "`visr {}`")
        raise UserError(f"There is no command `{verb}`; {hint}")
    startup_checks.check(needs_torch=verb not in _WITHOUT_TORCH)
    try:
        return _load(verb)(rest)
    except HelpShown:
        return 0


def _load(verb: str) -> Callable[[list[str]], int]:
    """Import the module of one verb only: importing all of them would take seconds."""
    import importlib

    if verb in ("pack", "push", "pull"):
        return getattr(importlib.import_module("visr.commands.sharing"), verb)
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
    """One line that ends with a full stop; the first letter may belong to a path, so it stays."""
    line = one_line(text)
    return line if line.endswith((".", "?", "!")) else f"{line}."


if __name__ == "__main__":
    sys.exit(main())
