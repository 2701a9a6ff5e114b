"""The explorer as an ASGI application: every address that there is."""

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
from visr.explorer.auth import App, Guard
from visr.explorer.state import Explored
from visr.explorer.validation import Fields
from visr.inference import expression

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def build(explored: Explored, *, token: str, host: str) -> App:
    """All routes, behind the guard."""
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
    return Guard(app, token=token, host=host)


def assets() -> dict[str, bytes]:
    """The page's files, read once: no name from outside ever reaches the file system."""
    folder = resources.files("visr.explorer") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


class Pages:
    """What stands at each address."""

    def __init__(self, explored: Explored) -> None:
        self._explored, self._assets = explored, assets()
        self._stroke = asyncio.Lock()

    async def index(self, _: Request) -> Response:
        """The page; it holds nothing of the run, so it needs no token."""
        return Response(self._assets["index.html"], media_type=_TYPES["html"])

    async def static(self, request: Request) -> Response:
        """Its scripts and styles."""
        name = request.path_params["name"]
        if name not in self._assets:
            raise HTTPException(404)
        return Response(self._assets[name], media_type=_TYPES[name.rpartition(".")[2]])

    async def facts(self, _: Request) -> Response:
        """What there is to know of the run."""
        return responses.answer(await asyncio.to_thread(self._explored.facts))

    async def progress(self, _: Request) -> Response:
        """How far training is."""
        return responses.answer(await asyncio.to_thread(self._explored.progress))

    async def curves(self, _: Request) -> Response:
        """Curves of training."""
        return responses.answer(await asyncio.to_thread(curves.read, self._explored.run.directory))

    async def paint(self, request: Request) -> Response:
        """A stroke: its task and all that follows from it."""
        return await self._answer(request, self._paint, self._stroke)

    def _paint(self, fields: Fields) -> dict[str, Any]:
        run, wishes = self._explored.run, self._explored.wishes
        gpi = fields.flag("gpi", run.config.agent.gpi)
        granted = wishes.grant(fields, "paint")
        return {"task": granted.to_dict(run), **painting.judge(run, granted.task, gpi)}

    async def preset(self, request: Request) -> Response:
        """A reward in words, as numbers to paint."""
        return await self._answer(request, self._preset)

    def _preset(self, fields: Fields) -> dict[str, Any]:
        text = fields.text("text", expression.MAX_LENGTH)
        return {"reward": painting.preset(self._explored.run, text).tolist()}

    async def task(self, request: Request) -> Response:
        """A wish, granted."""
        return await self._answer(request, self._task)

    def _task(self, fields: Fields) -> dict[str, Any]:
        explored = self._explored
        is_long = fields.text("kind", 20) in ("environment", "expression")
        with explored.alone() if is_long else contextlib.nullcontext():
            return explored.wishes.grant(fields).to_dict(explored.run)

    async def save(self, request: Request) -> Response:
        """Keep a task in the run."""
        return await self._answer(request, self._save)

    def _save(self, fields: Fields) -> dict[str, Any]:
        wishes = self._explored.wishes
        name = wishes.save(fields.text("id", 40), fields.text("name", 60, ""))
        path = self._explored.run.directory.task(name)
        return {"name": name, "file": str(path), "saved": wishes.saved_names()}

    async def reload(self, request: Request) -> Response:
        """The newest weights."""
        return await self._answer(request, self._reload, self._stroke)

    def _reload(self, _: Fields) -> dict[str, Any]:
        self._explored.reload()
        return self._explored.facts()

    async def start_atlas(self, request: Request) -> Response:
        """Begin an atlas; it goes on by itself."""
        return await self._answer(request, self._start_atlas)

    def _start_atlas(self, fields: Fields) -> dict[str, Any]:
        explored = self._explored
        count = fields.integer("skills", 2, atlas.MOST_SKILLS, atlas.NUM_SKILLS)
        seed = fields.integer("seed", 0, 2**31 - 1, 0)
        explored.start_atlas(count, seed)
        return {"skills": count}

    async def atlas(self, request: Request) -> Response:
        """The skills that are ready, but for those that the client has."""
        have = request.query_params.get("have", "0")
        first = int(have) if have.isascii() and have.isdecimal() and len(have) < 4 else 0
        return responses.answer(await asyncio.to_thread(self._explored.atlas_so_far, first))

    async def exported(self, _: Request) -> Response:
        """The atlas as one file."""
        page = await asyncio.to_thread(self._exported)
        headers = {"content-disposition": 'attachment; filename="atlas.html"'}
        return Response(page, media_type=_TYPES["html"], headers=headers)

    def _exported(self) -> str:
        return export.page(*self._explored.finished_atlas())

    async def live(self, websocket: WebSocket) -> None:
        """The agent at play."""
        await live.serve(websocket, self._explored)

    async def _answer(
        self,
        request: Request,
        work: Callable[[Fields], dict[str, Any]],
        lock: asyncio.Lock | None = None,
    ) -> Response:
        """Read the body, work in a thread, answer; with a lock, one at a time."""
        fields = Fields.parse(await request.body())
        async with lock or contextlib.nullcontext():
            return responses.answer(await asyncio.to_thread(work, fields))
