"""The explorer's ASGI application: all routes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from visr.explorer import atlas, curves, export, live, painting, responses
from visr.explorer.auth import App, AuthMiddleware
from visr.explorer.state import ExplorerState
from visr.explorer.validation import RequestFields
from visr.inference import expression

Work = Callable[[ExplorerState, RequestFields], dict[str, Any]]
Handler = Callable[[Request], Awaitable[Response]]
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def build(explored: ExplorerState, *, token: str, host: str) -> App:
    """The application behind its authentication."""
    app = Starlette(routes=_routes(explored), exception_handlers=responses.HANDLERS)
    return AuthMiddleware(app, token=token, host=host)


def _routes(explored: ExplorerState) -> list[BaseRoute]:
    strokes = asyncio.Lock()
    """Held by requests that run one at a time, in order."""
    posts: dict[str, tuple[Work, asyncio.Lock | None]] = {
        "paint": (_paint, strokes),
        "preset": (_preset, None),
        "task": (_task, None),
        "save": (_save, None),
        "reload": (_reload, strokes),
        "atlas": (_start_atlas, None),
    }
    gets: dict[str, Callable[[], Any]] = {
        "run": lambda: explored.facts(),
        "progress": lambda: explored.progress(),
        "curves": lambda: curves.read(explored.run.directory),
    }
    files = assets()

    async def index(_: Request) -> Response:
        """The page; it contains nothing of the run, so it needs no token."""
        return Response(files["index.html"], media_type=_TYPES["html"])

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files:
            raise HTTPException(404)
        return Response(files[name], media_type=_TYPES[name.rpartition(".")[2]])

    async def atlas_so_far(request: Request) -> Response:
        """The finished skills that the client does not have yet."""
        have = request.query_params.get("have", "0")
        first = int(have) if have.isascii() and have.isdecimal() and len(have) < 4 else 0
        return responses.json_response(await asyncio.to_thread(explored.atlas_so_far, first))

    async def atlas_file(_: Request) -> Response:
        page = await asyncio.to_thread(lambda: export.page(*explored.finished_atlas()))
        headers = {"content-disposition": 'attachment; filename="atlas.html"'}
        return Response(page, media_type=_TYPES["html"], headers=headers)

    async def live_session(websocket: WebSocket) -> None:
        await live.serve(websocket, explored)

    return [
        Route("/", index),
        Route("/static/{name}", static),
        *(Route(f"/api/{name}", _get(read)) for name, read in gets.items()),
        *(
            Route(f"/api/{name}", _post(explored, work, lock), methods=["POST"])
            for name, (work, lock) in posts.items()
        ),
        Route("/api/atlas", atlas_so_far),
        Route("/api/atlas.html", atlas_file),
        WebSocketRoute("/api/live", live_session),
    ]


def _get(read: Callable[[], Any]) -> Handler:
    """A handler that computes in a thread."""

    async def handle(_: Request) -> Response:
        return responses.json_response(await asyncio.to_thread(read))

    return handle


def _post(explored: ExplorerState, work: Work, lock: asyncio.Lock | None) -> Handler:
    """A handler that parses the body and computes in a thread; with a lock, one request at a time."""

    async def handle(request: Request) -> Response:
        fields = RequestFields.parse(await request.body())
        async with lock or contextlib.nullcontext():
            return responses.json_response(await asyncio.to_thread(work, explored, fields))

    return handle


def assets() -> dict[str, bytes]:
    """The page's files, read once; so no name from a request reaches the file system."""
    folder = resources.files("visr.explorer") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def _paint(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """A painted reward: its task, policy and values."""
    run = explored.run
    gpi = fields.flag("gpi", run.config.agent.gpi)
    requested = explored.requests.infer(fields, "paint")
    return {"task": requested.to_dict(run), **painting.evaluate(run, requested.task, gpi)}


def _preset(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """A preset or an expression as a reward for every cell."""
    text = fields.text("text", expression.MAX_LENGTH)
    return {"reward": painting.preset(explored.run, text).tolist()}


def _task(explored: ExplorerState, fields: RequestFields) -> dict[str, Any]:
    """Infer a task from a request."""
    is_long = fields.text("kind", 20) in ("environment", "expression")
    with explored.exclusive() if is_long else contextlib.nullcontext():
        return explored.requests.infer(fields).to_dict(explored.run)


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
