"""The explorer's ASGI application: all routes, and errors as one sentence."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable
from importlib import resources
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from visr import terminal
from visr.errors import UserError
from visr.explorer import atlas, live, messages, painting, preference_questions
from visr.explorer.auth import AuthMiddleware
from visr.explorer.messages import RequestFields
from visr.explorer.state import ExplorerState
from visr.inference import expression

Work = Callable[[ExplorerState, RequestFields], dict[str, Any]]
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def build(
    explored: ExplorerState, *, token: str, host: str, stop: Callable[[], None]
) -> AuthMiddleware:
    """The application behind its authentication; a request can `stop` the server."""
    handlers: Any = {UserError: _error, HTTPException: _error, Exception: _unexpected}
    app = Starlette(routes=_routes(explored, stop), exception_handlers=handlers)
    return AuthMiddleware(app, token=token, host=host)


def _routes(explored: ExplorerState, stop: Callable[[], None]) -> list[BaseRoute]:
    folder = resources.files("visr.explorer") / "static"
    # read once, so that no name from a request reaches the file system
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    strokes = asyncio.Lock()  # for requests that run one at a time, in order

    def route(method: str, name: str, work: Work, lock: asyncio.Lock | None = None) -> Route:
        """Compute in a thread; with a lock, one request at a time."""

        async def handle(request: Request) -> Response:
            fields = RequestFields.parse(await request.body() if method == "POST" else b"{}")
            async with lock or contextlib.nullcontext():
                return _json(await asyncio.to_thread(work, explored, fields))

        return Route(f"/api/{name}", handle, methods=[method])

    async def static(request: Request) -> Response:
        """A file of the page; it contains nothing of the run, so it needs no token."""
        name = request.path_params.get("name", "index.html")
        if name not in files:
            raise HTTPException(404)
        return Response(files[name], media_type=_TYPES[name.rpartition(".")[2]])

    async def atlas_so_far(request: Request) -> Response:
        """The finished skills that the client does not have yet."""
        have = request.query_params.get("have", "0")
        first = int(have) if have.isascii() and have.isdecimal() and len(have) < 4 else 0
        return _json(await asyncio.to_thread(explored.atlas_so_far, first))

    async def atlas_file(_: Request) -> Response:
        page = await asyncio.to_thread(lambda: atlas.page(*explored.finished_atlas()))
        headers = {"content-disposition": 'attachment; filename="atlas.html"'}
        return Response(page, media_type=_TYPES["html"], headers=headers)

    async def stopped(_: Request) -> Response:
        stop()
        return _json({"stopped": True})

    async def live_session(websocket: WebSocket) -> None:
        await live.serve(websocket, explored)

    return [
        Route("/", static),
        Route("/static/{name}", static),
        route("GET", "run", lambda state, _: state.facts()),
        route("GET", "progress", lambda state, _: state.progress()),
        route("GET", "curves", lambda state, _: state.curves()),
        route("POST", "paint", _paint, strokes),
        route("POST", "refine", _refine),
        route("POST", "refined", _refined),
        route("POST", "preset", _preset),
        route("POST", "task", _task),
        route("POST", "question", _question),
        route("POST", "save", _save),
        route("POST", "reload", _reload, strokes),
        route("POST", "atlas", _start_atlas),
        Route("/api/stop", stopped, methods=["POST"]),
        Route("/api/atlas", atlas_so_far),
        Route("/api/atlas.html", atlas_file),
        WebSocketRoute("/api/live", live_session),
    ]


def _json(content: Any, status: int = 200) -> Response:
    return Response(messages.encoded(content), status, media_type="application/json")


async def _error(_: Request, error: Exception) -> Response:
    """Invalid input (400), no such route (404) or method (405), or a body that is too large (413)."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    words = {404: "There is nothing at this address.", 405: "This address takes no such request."}
    sentence = error.detail if isinstance(error, HTTPException) else str(error)
    return _json({"error": words.get(status, sentence)}, status)


async def _unexpected(request: Request, error: Exception) -> Response:
    """A bug: details go to the terminal, the client gets one sentence."""
    *_, place = traceback.extract_tb(error.__traceback__)
    where = f"{place.filename}:{place.lineno}"
    terminal.say(f"visr: {request.url.path} failed: {error!r} at {where}")
    return _json({"error": "The explorer failed; its terminal shows the error."}, 500)


def _paint(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """A painted reward: its task, policy and values."""
    run = explored.run
    explored.refinement.cancel()
    gpi = fields.flag("gpi", run.config.agent.gpi)
    requested = explored.requests.infer(fields, "paint")
    return {"task": requested.to_dict(run), **painting.evaluate(run, requested.task, gpi)}


def _refine(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """Start to refine a painted task in the background."""
    requested = explored.requests.get(fields.text("id", 40))
    painting.world(explored.run)
    explored.refinement.start(explored.run, requested)
    return {"id": requested.id}


def _refined(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """The best policy of a refinement so far."""
    run, gpi = explored.run, fields.flag("gpi", explored.run.config.agent.gpi)
    return explored.refinement.so_far(fields.text("id", 40), run, explored.requests, gpi)


def _preset(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """A preset or an expression as a reward for every cell."""
    text = fields.text("text", expression.MAX_LENGTH)
    return {"reward": painting.preset(explored.run, text).tolist()}


def _task(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """Infer a task from a request."""
    is_quick = fields.text("kind", 20) in ("random", "saved", "marks", "direction", "mix")
    with contextlib.nullcontext() if is_quick else explored.exclusive():
        return explored.requests.infer(fields).to_dict(explored.run)


def _question(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """Two recorded segments to compare, after the answers so far."""
    answers = fields.rows("answers", 3, preference_questions.MAX_ANSWERS, least=0).astype(np.intp)
    with explored.exclusive():
        return explored.requests.questions.next(answers, fields.integer("number", 0, 2**31 - 1))


def _save(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """Save a task in the run."""
    requests = explored.requests
    name = requests.save(fields.text("id", 40), fields.text("name", 60, ""))
    path = explored.run.directory.task(name)
    return {"name": name, "file": str(path), "saved": requests.saved_names()}


def _reload(explored: ExplorerState, _: RequestFields) -> dict[str, Any]:
    """Load the newest weights."""
    explored.reload()
    return explored.facts()


def _start_atlas(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """Start to make an atlas in the background."""
    count = fields.integer("skills", 2, atlas.MAX_SKILLS, atlas.NUM_SKILLS)
    explored.start_atlas(count, fields.integer("seed", 0, 2**31 - 1, 0))
    return {"skills": count}
