"""The explorer: a local web page over a run. Needs the extra `explorer` (starlette, uvicorn, websockets)."""
