"""What the server offers, said once: endpoints with the numbers they read, and their OpenAPI description."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from unweave.base.config import Config
from unweave.base.errors import ConfigError
from unweave.explorer import forms
from unweave.operations import OPERATIONS

Handler = Callable[[Request], Awaitable[Response]]
FILES = {"sheet": "image/png", "png": "image/png", "gif": "image/gif", "csv": "text/csv"}
"""Kinds of files that the result of an operation can be had as."""


@dataclass(frozen=True)
class Whole:
    """A whole number of a query."""

    name: str
    default: int | None = None
    least: int = 0
    most: int = 2**53

    def read(self, request: Request) -> int:
        text = request.query_params.get(self.name)
        if text is None and self.default is not None:
            return self.default
        try:
            value = int(text or "")
        except ValueError:
            raise ConfigError(f"{self.name} is a whole number: got {(text or '')[:40]!r}") from None
        if not self.least <= value <= self.most:
            raise ConfigError(f"{self.name} is between {self.least} and {self.most}: got {value}")
        return value

    def described(self) -> dict[str, Any]:
        schema = {"type": "integer", "minimum": self.least, "maximum": self.most}
        if self.default is not None:
            schema["default"] = self.default
        return {"name": self.name, "in": "query", "required": self.default is None, "schema": schema}


@dataclass(frozen=True)
class Endpoint:
    """A method and a path, who answers, and what is read besides the path.

    body: class of the JSON in the body, or the media type of another kind of body
    """

    method: str
    path: str
    handler: Handler
    query: tuple[Whole, ...] = ()
    body: type[Config] | str | None = None


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """OpenAPI 3.1: endpoints from their docstrings, and paths for each operation with its own parameters."""
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        path = endpoint.path.replace("{row:int}", "{row}")
        if "{operation}" in path:
            paths.update(_of_operations(path))
            continue
        entry = _described(endpoint.handler.__doc__ or "", path)
        entry["parameters"] += [number.described() for number in endpoint.query]
        if isinstance(endpoint.body, str):
            entry["requestBody"] = {"required": True, "content": {endpoint.body: {}}}
        elif endpoint.body is not None:
            entry["requestBody"] = _json_body(endpoint.body.model_json_schema())
        paths.setdefault(path, {})[endpoint.method.lower()] = entry
    return {"openapi": "3.1.0", "info": {"title": "Unweave explorer", "version": _version()}, "paths": paths}


def _of_operations(path: str) -> dict[str, Any]:
    """One path for each operation: its result, or with {kind} each kind of file."""
    found: dict[str, Any] = {}
    for operation in OPERATIONS:
        own = path.replace("{operation}", operation.name)
        schema = forms.schema(operation)
        if "{kind}" not in own:
            rows = {"type": "array", "items": {"type": "integer"}}
            body = _json_body({"type": "object", "properties": {"params": schema, "rows": rows}})
            found[own] = {"post": {**_described(operation.summary, own), "requestBody": body}}
            continue
        query = [{"name": "rows", "in": "query", "schema": {"type": "string"}, "description": "such as 0,5,7"}]
        query += [{"name": name, "in": "query", "schema": each} for name, each in schema.get("properties", {}).items()]
        for kind, media in FILES.items():
            entry = _described(operation.summary, own.replace("{kind}", kind))
            entry["parameters"] += query
            entry["responses"]["200"]["content"] = {media: {}}
            found[own.replace("{kind}", kind)] = {"get": entry}
    return found


def _described(text: str, path: str) -> dict[str, Any]:
    named = [part.split("}")[0] for part in path.split("{")[1:]]
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer" if name == "row" else "string"}}
        for name in named
    ]
    error = {"type": "object", "properties": {"error": {"type": "string"}}}
    wrong = {"description": "a sentence says what was wrong", "content": {"application/json": {"schema": error}}}
    return {
        "summary": " ".join(text.split()),
        "parameters": parameters,
        "responses": {"200": {"description": "as said"}, "4XX": wrong},
    }


def _json_body(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": dict(schema)}}}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("unweave")
    except PackageNotFoundError:
        return "unknown"
