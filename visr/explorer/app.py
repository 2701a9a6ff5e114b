"""The explorer's ASGI application: all routes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from visr.explorer import atlas, curves, export, live, painting, responses
from visr.explorer.auth import App, AuthMiddleware
from visr.explorer.state import ExplorerState
from visr.explorer.validation import RequestFields
from visr.inference import expression

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def build(explored: ExplorerState, *, token: str, host: str) -> App:
    """The application behind its authentication."""
    pages = Pages(explored)
    routes = [
        Route("/", pages.index),
        Route("/static/{name}", pages.static),
        Route("/api/run", pages.facts),
        Route("/api/progress", pages.progress),
        Route("/api/curves", pages.curves),
        Route("/api/paint", pages.paint, methods=["POST"]),
        Route("/api/preset", pages.preset, methods=["POST"]),
        Route("/api/task", pages.task, methods=["POST"]),
        Route("/api/save", pages.save, methods=["POST"]),
        Route("/api/reload", pages.reload, methods=["POST"]),
        Route("/api/atlas", pages.start_atlas, methods=["POST"]),
        Route("/api/atlas", pages.atlas),
        Route("/api/atlas.html", pages.exported),
        WebSocketRoute("/api/live", pages.live),
    ]
    app = Starlette(routes=routes, exception_handlers=responses.HANDLERS)
    return AuthMiddleware(app, token=token, host=host)


def assets() -> dict[str, bytes]:
    """The page's files, read once; so no name from a request reaches the file system."""
    folder = resources.files("visr.explorer") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


class Pages:
    """The handler of each route."""

    def __init__(self, explored: ExplorerState) -> None:
        self._explored, self._assets = explored, assets()
        self._stroke = asyncio.Lock()

    async def index(self, _: Request) -> Response:
        """The page; it contains nothing of the run, so it needs no token."""
        return Response(self._assets["index.html"], media_type=_TYPES["html"])

    async def static(self, request: Request) -> Response:
        """Scripts and styles."""
        name = request.path_params["name"]
        if name not in self._assets:
            raise HTTPException(404)
        return Response(self._assets[name], media_type=_TYPES[name.rpartition(".")[2]])

    async def facts(self, _: Request) -> Response:
        """Facts about the run."""
        return responses.json_response(await asyncio.to_thread(self._explored.facts))

    async def progress(self, _: Request) -> Response:
        """Progress of training."""
        return responses.json_response(await asyncio.to_thread(self._explored.progress))

    async def curves(self, _: Request) -> Response:
        """Training curves."""
        return responses.json_response(
            await asyncio.to_thread(curves.read, self._explored.run.directory)
        )

    async def paint(self, request: Request) -> Response:
        """A painted reward: its task, policy and values."""
        return await self._respond(request, self._paint, self._stroke)

    def _paint(self, fields: RequestFields) -> dict[str, Any]:
        run, requests = self._explored.run, self._explored.requests
        gpi = fields.flag("gpi", run.config.agent.gpi)
        requested = requests.infer(fields, "paint")
        return {"task": requested.to_dict(run), **painting.evaluate(run, requested.task, gpi)}

    async def preset(self, request: Request) -> Response:
        """A preset or an expression as a reward for every cell."""
        return await self._respond(request, self._preset)

    def _preset(self, fields: RequestFields) -> dict[str, Any]:
        text = fields.text("text", expression.MAX_LENGTH)
        return {"reward": painting.preset(self._explored.run, text).tolist()}

    async def task(self, request: Request) -> Response:
        """Infer a task from a request."""
        return await self._respond(request, self._task)

    def _task(self, fields: RequestFields) -> dict[str, Any]:
        explored = self._explored
        is_long = fields.text("kind", 20) in ("environment", "expression")
        with explored.exclusive() if is_long else contextlib.nullcontext():
            return explored.requests.infer(fields).to_dict(explored.run)

    async def save(self, request: Request) -> Response:
        """Save a task in the run."""
        return await self._respond(request, self._save)

    def _save(self, fields: RequestFields) -> dict[str, Any]:
        requests = self._explored.requests
        name = requests.save(fields.text("id", 40), fields.text("name", 60, ""))
        path = self._explored.run.directory.task(name)
        return {"name": name, "file": str(path), "saved": requests.saved_names()}

    async def reload(self, request: Request) -> Response:
        """Load the newest weights."""
        return await self._respond(request, self._reload, self._stroke)

    def _reload(self, _: RequestFields) -> dict[str, Any]:
        self._explored.reload()
        return self._explored.facts()

    async def start_atlas(self, request: Request) -> Response:
        """Start to make an atlas in the background."""
        return await self._respond(request, self._start_atlas)

    def _start_atlas(self, fields: RequestFields) -> dict[str, Any]:
        explored = self._explored
        count = fields.integer("skills", 2, atlas.MAX_SKILLS, atlas.NUM_SKILLS)
        seed = fields.integer("seed", 0, 2**31 - 1, 0)
        explored.start_atlas(count, seed)
        return {"skills": count}

    async def atlas(self, request: Request) -> Response:
        """The finished skills that the client does not have yet."""
        have = request.query_params.get("have", "0")
        first = int(have) if have.isascii() and have.isdecimal() and len(have) < 4 else 0
        return responses.json_response(await asyncio.to_thread(self._explored.atlas_so_far, first))

    async def exported(self, _: Request) -> Response:
        """The atlas as one HTML file."""
        page = await asyncio.to_thread(self._exported)
        headers = {"content-disposition": 'attachment; filename="atlas.html"'}
        return Response(page, media_type=_TYPES["html"], headers=headers)

    def _exported(self) -> str:
        return export.page(*self._explored.finished_atlas())

    async def live(self, websocket: WebSocket) -> None:
        """Stream the agent's play over a websocket."""
        await live.serve(websocket, self._explored)

    async def _respond(
        self,
        request: Request,
        work: Callable[[RequestFields], dict[str, Any]],
        lock: asyncio.Lock | None = None,
    ) -> Response:
        """Parse the body, compute in a thread, respond; with a lock, one request at a time."""
        fields = RequestFields.parse(await request.body())
        async with lock or contextlib.nullcontext():
            return responses.json_response(await asyncio.to_thread(work, fields))
