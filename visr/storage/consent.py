"""Code that the user has trained with: $XDG_CONFIG_HOME/visr/trusted.json, outside of every run.

A run names the code of its environment, but cannot consent to running it: consent is the name of a module
together with the file that it meant on this machine. Delete trusted.json to withdraw all consent.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from visr import terminal
from visr.errors import UserError
from visr.storage import schema
from visr.storage.files import read_json, write_json

log = terminal.logger()


@dataclass(frozen=True)
class Consent:
    """One module or file, as it is named in runs, and where it is."""

    module: str
    file: str


@dataclass(frozen=True)
class Consents:
    """trusted.json."""

    FORMAT: ClassVar[int] = 1

    trusted: tuple[Consent, ...] = ()


def path() -> Path:
    """Where consents are kept."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    home = given if given.is_absolute() else Path("~/.config").expanduser()
    return home / "visr" / "trusted.json"


def remember(module: str, file: Path) -> None:
    """Keep the user's consent to run this code; where nothing can be written, it ends with the process."""
    if is_given(module, file):
        return
    known = _read()
    try:
        added = Consent(module, str(file))
        write_json(path(), schema.to_dict(replace(known, trusted=(*known.trusted, added))))
    except UserError as error:
        log.warning("visr: consent to run %s is not kept: %s", module, error)


def is_given(module: str, file: Path) -> bool:
    """Whether the user has trained with this module, and it was this file."""
    return str(file) in {str(known) for known in files(module)}


def files(module: str) -> list[Path]:
    """The files with which the user has trained under this name."""
    return [Path(known.file) for known in _read().trusted if known.module == module]


def _read() -> Consents:
    if not path().exists():
        return Consents()
    with schema.refusing(f"{path()} is damaged", "remove it and name your modules again"):
        return schema.read(Consents, read_json(path()))
