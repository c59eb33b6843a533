"""The registry over HTTP: routes on FastAPI, behind the gate."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from latecomer.errors import RegistryError
from latecomer.schemas.registry.bodies import (
    LARGEST_BODY,
    MEDIA,
    body_too_large,
    read_body,
    require_json,
)
from latecomer.schemas.registry.core import Registry
from latecomer.schemas.registry.gate import Gate, decoded, headers_of
from latecomer.schemas.registry.records import Body
from latecomer.schemas.registry.refusals import Refused
from latecomer.schemas.registry.requests import Request as ReadRequest
from latecomer.schemas.registry.requests import Route, read_query
from latecomer.schemas.registry.routes import ROUTES
from latecomer.schemas.registry.tokens import Tokens

LOG = logging.getLogger(__name__)
BODY_SECONDS = 30.0
"""How long a body may take to arrive."""
_FAILED = "The database of the registry failed; the log of the registry says why."
_FAULT = "The registry failed, because of a bug; its log says more."
_FLAGS = (
    *("deleted", "deletedOnly", "deleted_only", "permanent", "normalize", "verbose", "force"),
    *("latestOnly", "fetchMaxId", "defaultToGlobal", "aliases"),
)
_NUMBERS = ("offset", "limit", "after")
_ERROR = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}


def build_app(registry: Registry, tokens: Tokens | None) -> Gate:
    """The whole registry as an ASGI app."""
    app = FastAPI(
        title="latecomer registry",
        version="1",
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
    )
    for route in ROUTES:
        app.add_api_route(
            route.path,
            _endpoint(registry, route),
            methods=[route.method],
            summary=route.what,
            name=f"{route.method} {route.path}",
            response_class=Response,
            response_model=None,
            responses=_responses(),
            openapi_extra=_described(route),
        )
    app.add_exception_handler(HTTPException, _no_route)
    return Gate(app, tokens)


def _endpoint(registry: Registry, route: Route) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            answer = await run_in_threadpool(route.answer, registry, await _read(request, route))
        except Refused as refusal:
            return _refusal(request, refusal)
        except RegistryError as error:  # the database failed, not the request
            LOG.warning("%s %s: %s", route.method, route.path, error)
            status = 503 if route.path == "/health" else 500
            return _refusal(request, Refused(error.code or 50001, _FAILED, status=status))
        except (ClientDisconnect, asyncio.CancelledError):
            raise
        except Exception as error:
            LOG.warning("%s %s: %s", route.method, route.path, type(error).__name__, exc_info=True)
            return _refusal(request, Refused(500, _FAULT))
        text = (
            answer["schema"]
            if route.text_only
            else json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        )
        return _answer(request, 200, text.encode())

    return endpoint


async def _read(request: Request, route: Route) -> ReadRequest:
    """Read the request. What the token does not allow is refused before the body is read."""
    scope = request.scope
    path = {name: decoded(value) for name, value in scope["path_params"].items()}
    query, repeated = read_query(scope["query_string"], route.parameters)
    read = ReadRequest(scope["latecomer.actor"], scope["latecomer.scope"], path, query, repeated)
    read.require(route.scope, route.what)
    if route.body is None:
        return read
    return replace(read, body=await _body(request, route.body))


async def _body(request: Request, shape: type[Body]) -> Body:
    require_json(headers_of(request.scope))
    raw = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                raw += chunk
                if len(raw) > LARGEST_BODY:
                    raise body_too_large()
    except TimeoutError:
        raise Refused(408, f"The body did not arrive within {BODY_SECONDS:g} s.") from None
    body: Body = await run_in_threadpool(read_body, bytes(raw), shape)
    return body


async def _no_route(request: Request, error: HTTPException) -> Response:
    words = {
        404: "There is no such path in this registry.",
        405: "This path does not take that method.",
    }
    refusal = Refused(error.status_code, words.get(error.status_code, "Refused."))
    response = _refusal(request, refusal)
    if error.headers and "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response


def _refusal(request: Request, refusal: Refused) -> Response:
    return _answer(request, refusal.status, refusal.body())


def _answer(request: Request, status: int, body: bytes) -> Response:
    headers = {"content-type": request.scope["latecomer.answer"], "cache-control": "no-store"}
    return Response(body, status, headers)


# The description in /openapi.json


def _responses() -> dict[int | str, dict[str, Any]]:
    answer: dict[str, Any] = {kind: {"schema": {}} for kind in MEDIA}
    error = {kind: {"schema": _ERROR} for kind in MEDIA}
    return {
        200: {"description": "done", "content": answer},
        "default": {"description": "refused", "content": error},
    }


def _described(route: Route) -> dict[str, Any]:
    path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    query = [{"name": name, "in": "query", "schema": _kind(name)} for name in route.parameters]
    description: dict[str, Any] = {"parameters": [*path, *query]}
    if route.body is not None:
        shape = route.body.model_json_schema(ref_template="#/components/schemas/{model}")
        shape = _inlined(shape, shape.pop("$defs", {}))
        description["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": shape} for kind in MEDIA},
        }
    return description


def _kind(name: str) -> dict[str, str]:
    if name in _FLAGS:
        return {"type": "boolean"}
    return {"type": "integer"} if name in _NUMBERS else {"type": "string"}


def _inlined(shape: Any, parts: dict[str, Any]) -> Any:
    """A JSON Schema with its references written out."""
    if isinstance(shape, list):
        return [_inlined(each, parts) for each in shape]
    if not isinstance(shape, dict):
        return shape
    if "$ref" in shape:
        return _inlined(parts[shape["$ref"].rpartition("/")[2]], parts)
    return {key: _inlined(value, parts) for key, value in shape.items()}
