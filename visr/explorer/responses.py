"""What the server says: JSON, and a sentence where something is wrong."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from visr.errors import UserError
from visr.explorer.auth import TooLarge
from visr.explorer.validation import MOST_BYTES


def encoded(content: Any) -> bytes:
    """JSON has no NaN and no infinity, so they become null."""
    return json.dumps(_plain(content), allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def answer(content: Any, status: int = 200) -> Response:
    """A JSON object."""
    return Response(encoded(content), status, media_type="application/json")


def _say(sentence: str, status: int) -> Response:
    return answer({"error": sentence}, status)


async def user_error(_: Request, error: Exception) -> Response:
    """Input that cannot be used."""
    return _say(str(error), 400)


async def too_large(_: Request, __: Exception) -> Response:
    """A body beyond its bound."""
    return _say(f"The request is larger than {MOST_BYTES:,} bytes.", 413)


async def http_error(_: Request, error: Exception) -> Response:
    """No such place, or no such verb there."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    words = {404: "There is nothing at this address.", 405: "This address takes no such request."}
    return _say(words.get(status, "This request cannot be answered."), status)


async def unexpected(request: Request, error: Exception) -> Response:
    """A mistake of ours: the terminal is told which, the client only that there was one."""
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else "somewhere"
    print(f"visr: {request.url.path} failed: {error!r} at {where}", file=sys.stderr)
    return _say("The explorer made a mistake; its terminal says which.", 500)


HANDLERS: Any = {
    UserError: user_error,
    TooLarge: too_large,
    HTTPException: http_error,
    Exception: unexpected,
}
