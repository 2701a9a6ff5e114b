"""JSON responses, and errors as one sentence."""

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
from visr.explorer.validation import MAX_BYTES


def encoded(content: Any) -> bytes:
    """JSON bytes; NaN and infinity become null."""
    return json.dumps(_plain(content), allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_response(content: Any, status: int = 200) -> Response:
    """A JSON response."""
    return Response(encoded(content), status, media_type="application/json")


def _error(sentence: str, status: int) -> Response:
    return json_response({"error": sentence}, status)


async def user_error(_: Request, error: Exception) -> Response:
    """Invalid input: 400."""
    return _error(str(error), 400)


async def too_large(_: Request, __: Exception) -> Response:
    """A body that is too large: 413."""
    return _error(f"The request is larger than {MAX_BYTES:,} bytes.", 413)


async def http_error(_: Request, error: Exception) -> Response:
    """No such route (404) or method (405)."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    words = {404: "There is nothing at this address.", 405: "This address takes no such request."}
    return _error(words.get(status, "This request cannot be answered."), status)


async def unexpected(request: Request, error: Exception) -> Response:
    """A bug: details go to the terminal, the client gets one sentence."""
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else "somewhere"
    print(f"visr: {request.url.path} failed: {error!r} at {where}", file=sys.stderr)
    return _error("The explorer failed; its terminal shows the error.", 500)


HANDLERS: Any = {
    UserError: user_error,
    TooLarge: too_large,
    HTTPException: http_error,
    Exception: unexpected,
}
