"""The explorers that this user runs on this machine: one private file each, to list, stop and open them."""

from __future__ import annotations

import contextlib
import html
import http.client
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from visr import strict_json
from visr.errors import UserError
from visr.storage import new_files, schema
from visr.storage.files import read_bytes

_LARGEST = 64 * 1024
_SECONDS = 5.0
_PAGE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={}">\n'


@dataclass(frozen=True)
class Launch:
    """One explorer."""

    pid: int
    url: str
    """With its token."""
    run: str

    @property
    def address(self) -> str:
        """The URL without its token."""
        return self.url.partition("?")[0]

    @property
    def port(self) -> int:
        """Where it listens."""
        return urlsplit(self.url).port or 80

    def ask(self, method: str, path: str) -> int:
        """The status of its answer to a request with the token; 0 if nobody answers."""
        parts = urlsplit(self.url)
        token = parts.query.removeprefix("token=")
        asked = http.client.HTTPConnection(parts.hostname or "", self.port, timeout=_SECONDS)
        try:
            asked.request(method, path, headers={"x-visr-token": token})
            return asked.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            asked.close()


@contextlib.contextmanager
def registered(launch: Launch) -> Iterator[Path]:
    """List an explorer while it serves; yields a page that leads to it.

    Other users can read the command line of a browser, but not this page: it is opened in place of the
    address with the token.
    """
    record, page = (_folder() / f"{launch.pid}-{launch.port}.{end}" for end in ("json", "html"))
    try:
        _write(record, json.dumps(asdict(launch)))
        _write(page, _PAGE.format(html.escape(launch.url)))
        yield page
    finally:
        record.unlink(missing_ok=True)
        page.unlink(missing_ok=True)


def running() -> list[Launch]:
    """The explorers that answer; files of those that were killed are removed."""
    found = []
    for record in sorted(_folder().glob("*.json")):
        launch = _read(record)
        if launch is not None and launch.ask("GET", "/api/progress") == http.HTTPStatus.OK:
            found.append(launch)
        else:
            record.unlink(missing_ok=True)
            record.with_suffix(".html").unlink(missing_ok=True)
    return found


def _read(record: Path) -> Launch | None:
    try:
        return schema.read(Launch, strict_json.parse(read_bytes(record, _LARGEST)))
    except (OSError, ValueError, UserError):  # removed meanwhile, or not written by visr
        return None


def _folder() -> Path:
    """A directory of this user and machine that nobody else can read."""
    given = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    is_given = given.is_absolute() and given.is_dir()
    path = given / "visr" if is_given else Path(tempfile.gettempdir()) / f"visr-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise UserError(
            f"Cannot list explorers in {path}: {error.strerror}; set XDG_RUNTIME_DIR."
        ) from None
    is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if not is_private or found.st_uid != os.getuid():
        raise UserError(
            f"{path} can be written by others, so explorers are not listed there; "
            "set XDG_RUNTIME_DIR to a directory of your own."
        )
    return path


def _write(path: Path, text: str) -> None:
    """Write a new file that only this user can read."""
    with open(new_files.create(path, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
