"""A stand-in for the HTTP interface of a Hugging Face hub, as far as `visr push` and `visr pull` use it."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HubStub:
    """Repositories in memory, on a free port of this machine; .safetensors files go through LFS."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.tokens: set[str] = set()
        """The Authorization headers that were sent."""
        self._objects: dict[str, bytes] = {}
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size) if size else b""
                if "chunked" in self.headers.get("Transfer-Encoding", ""):
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                stub.tokens.add(self.headers.get("Authorization", ""))
                code, headers, content = stub.answer(self.command, self.path, body)
                self.send_response(code)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT = _answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content for one request."""
        words = path.partition("?")[0].strip("/").split("/")
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            code = 409 if name in self.repos else 200
            self.repos.setdefault(name, {})
            self.private.setdefault(
                name, asked.get("visibility") == "private" or bool(asked.get("private"))
            )
            return _json({"url": f"{self.url}/{name}"}, code)
        if path == "/api/validate-yaml":
            return _json({"errors": [], "warnings": []})
        if words[:2] == ["api", "models"] and words[4:5] == ["preupload"]:
            kinds = [
                (f["path"], "lfs" if f["path"].endswith(".safetensors") else "regular")
                for f in json.loads(body)["files"]
            ]
            files = [{"path": p, "uploadMode": k, "shouldIgnore": False} for p, k in kinds]
            return _json({"files": files})
        if path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            for part in objects:
                part["actions"] = {"upload": {"href": f"{self.url}/lfs/{part['oid']}"}}
            return _json({"transfer": "basic", "objects": objects})
        if method == "PUT" and words[0] == "lfs":
            self._objects[hashlib.sha256(body).hexdigest()] = body
            return _json({})
        if words[:2] == ["api", "models"] and words[4:5] == ["commit"]:
            return self._commit("/".join(words[2:4]), body)
        if words[2:3] == ["resolve"]:
            return self._file("/".join(words[:2]), "/".join(words[4:]))
        return _json({"error": f"the stub does not know {method} {path}"}, 404)

    def _commit(self, repo: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.repos[repo][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            if line["key"] == "lfsFile":
                self.repos[repo][line["value"]["path"]] = self._objects[line["value"]["oid"]]
        oid = "0" * 40
        return _json(
            {"success": True, "commitUrl": f"{self.url}/{repo}/commit/{oid}", "commitOid": oid}
        )

    def _file(self, repo: str, name: str) -> tuple[int, dict[str, str], bytes]:
        if repo not in self.repos:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        if name not in self.repos[repo]:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"}, b""
        content = self.repos[repo][name]
        etag = hashlib.sha256(content).hexdigest()
        return 200, {"ETag": f'"{etag}"', "X-Repo-Commit": "0" * 40}, content


def _json(content: dict[str, Any], code: int = 200) -> tuple[int, dict[str, str], bytes]:
    return code, {"Content-Type": "application/json"}, json.dumps(content).encode()
