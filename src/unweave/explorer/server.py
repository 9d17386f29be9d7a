"""The explorer's server: what a page may ask, answered from runs, and its OpenAPI description.

Requests name runs, rows and operations, never paths. Nothing heavy runs in the event loop: `desk.py` has the threads. A
user's mistake is a 4xx with one sentence, which the page shows as it is.
"""

from __future__ import annotations

import asyncio
import functools
import json
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import numpy as np
import pydantic
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from unweave.base.config import Config
from unweave.base.errors import ConfigError, DeviceError, RunError, UnknownNameError, UnweaveError, unknown_name
from unweave.explorer import forms, uploads
from unweave.explorer.decoder import BusyError, SupersededError
from unweave.explorer.desk import Desk
from unweave.explorer.guard import LOOPBACK, Guard, TooLargeError
from unweave.explorer.openapi import FILES, Endpoint, Handler, Whole, describe
from unweave.explorer.opened import OpenedRun, _State
from unweave.operations import OPERATIONS

STATIC = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MOST_CODES = 512
"""Codes of one request for pictures."""
MOST_JSON = 4_000_000
"""Bytes of a body of JSON."""
START, COUNT, SEED = Whole("start", 0), Whole("count", 24, 1, 200), Whole("seed")
ROW, SINCE = Whole("row"), Whole("since", -1, -1)


def _not_too_many(codes: Any) -> Any:
    """Told before each of them is looked at."""
    if isinstance(codes, list) and not 1 <= len(codes) <= MOST_CODES:
        raise ConfigError(f"{len(codes)} codes in one request: send 1 to {MOST_CODES}")
    return codes


class DecodeRequest(Config):
    """Codes to make pictures of."""

    codes: Annotated[list[list[float]], pydantic.BeforeValidator(_not_too_many)]
    """(n, D) codes, columns as in `about.columns`."""
    view: str | None = None
    """Which picture on which page they are for: a later request for it takes the place of one that still waits."""


class OperateRequest(Config):
    """An operation to run."""

    rows: list[int] | None = None
    """Row numbers of the inputs; none: a few test rows."""
    params: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Parameters of the operation; defaults where not named."""


# Answers -----------------------------------------------------------------------------------------------------------


def _json(content: Any, status: int = 200) -> Response:
    return JSONResponse(content, status, headers={"Cache-Control": "no-store"})


def _picture(content: bytes, kind: str = "png") -> Response:
    return Response(content, media_type=f"image/{kind}", headers={"Cache-Control": "no-store"})


def _download(content: bytes, name: str, media: str) -> Response:
    plain = (
        name.encode("ascii", "replace").decode().replace("?", "_")
    )  # beside it as it is, for browsers that read that
    named = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"
    headers = {"Content-Disposition": named, "Cache-Control": "no-store"}
    return Response(content, media_type=media, headers=headers)


def _status(error: UnweaveError) -> int:
    if isinstance(error, UnknownNameError):
        return 404
    if isinstance(error, BusyError):
        return 503
    if isinstance(error, (RunError, DeviceError)):
        return 410  # deleted or damaged while it was open
    return 400


def _guarded(handler: Handler) -> Handler:
    """A handler whose mistakes are sentences."""

    @functools.wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except SupersededError:
            return Response(status_code=204)
        except TooLargeError:
            return _json({"error": "the request is too large: send less"}, 413)
        except ClientDisconnect:
            return Response(status_code=204)
        except UnweaveError as error:
            return _json({"error": str(error)}, _status(error))
        except OSError as error:
            return _json({"error": f"cannot read the run or its data: {error.strerror or error}"}, 410)

    return answer


async def _body(request: Request, cls: type[Config]) -> Any:
    content = await request.body()
    if len(content) > MOST_JSON:
        raise TooLargeError
    try:
        given = await asyncio.to_thread(json.loads, content)
    except (ValueError, RecursionError):
        raise ConfigError("the body of the request is no JSON") from None
    if not isinstance(given, dict):
        raise ConfigError("the body of the request is a JSON object")
    unknown = next((name for name in given if name not in cls.model_fields), None)
    if unknown is not None:
        raise unknown_name("setting", unknown, cls.model_fields)
    return cls(**given)


# Routes ------------------------------------------------------------------------------------------------------------


def _routes(desk: Desk) -> list[Route]:
    """Every route with one line about it, which is also its line in the OpenAPI description."""

    async def runs(request: Request) -> Response:
        """The runs of this page."""
        loop = asyncio.get_running_loop()

        def short(run: OpenedRun) -> dict[str, Any]:
            try:
                manifest = run.state().run.manifest
            except (UnweaveError, OSError) as error:
                return {"name": run.name, "error": str(error)}
            return {
                "name": run.name,
                "system": manifest.system,
                "data": manifest.data,
                "seed": manifest.seed,
                "training": run.training(),
            }

        listed = [await loop.run_in_executor(desk.executor, short, run) for run in desk.runs.values()]
        return _json({"runs": listed})

    async def about(request: Request) -> Response:
        """A run: its blocks, dimensions with their ranges and information, factors, operations."""
        run = desk.find(request)
        found = await desk.do(run, lambda state: {**state.about, "operations": state.operations})
        return _json({**found, "training": run.training()})

    async def some_rows(request: Request) -> Response:
        """Some rows of the data to choose inputs from, with their factors."""
        run = desk.find(request)
        start, count = START.read(request), COUNT.read(request)

        def work(state: _State) -> Any:
            places = np.arange(start, start + count) % len(state.rows)
            rows = state.rows[places].tolist()
            return {"rows": [{"row": row, "factors": state.factors_of(row)} for row in rows]}

        return _json(await desk.do(run, work))

    async def one_row(request: Request) -> Response:
        """An observation of the data: its code, the spread of its code, its factors."""
        row = ROW.read(request)
        return _json(await desk.do(desk.find(request), lambda state: state.input(row)))

    async def row_picture(request: Request) -> Response:
        """PNG of a row of the data."""
        row = request.path_params["row"]
        files = await desk.do(desk.find(request), lambda state: state.thumbnails([row]))
        return _picture(files[0])

    async def upload(request: Request) -> Response:
        """The code of an image file in the body, and what the system sees of it. Nothing is kept."""
        run = desk.find(request)
        content = await request.body()
        if len(content) > uploads.MOST_BYTES:
            raise ConfigError(f"the image has {len(content):,} bytes: at most {uploads.MOST_BYTES:,} are read")

        def work(state: _State) -> Any:
            seen = uploads.observation(content, state.dataset.spec, state.run.source())
            levels = np.round(255 * seen[0]).astype(int)
            return {"row": None, **state.coded(seen), "factors": {}, "seen": levels.tolist()}

        return _json(await desk.do(run, work))

    async def decode(request: Request) -> Response:
        """PNG of one code; of several, one PNG after the other, each after its length in four bytes."""
        run = desk.find(request)
        asked = await _body(request, DecodeRequest)
        state = await desk.prepared(run)
        codes = _codes(asked.codes, len(state.reference.columns))
        files = await desk.decoders[run.name].pictures(codes, asked.view)
        if len(files) == 1:
            return _picture(files[0])
        parts = b"".join(len(file).to_bytes(4, "big") + file for file in files)
        return Response(parts, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})

    async def draw(request: Request) -> Response:
        """A code drawn from the prior."""
        seed = SEED.read(request)
        return _json({"code": await desk.do(desk.find(request), lambda state: state.draw(seed))})

    async def knows(request: Request) -> Response:
        """What each dimension knows about each factor, and the importances of DCI."""
        return _json(await desk.do(desk.find(request), lambda state: state.knows))

    async def points(request: Request) -> Response:
        """Codes and factors of a sample of the data."""
        return _json(await desk.do(desk.find(request), lambda state: state.points()))

    async def scores(request: Request) -> Response:
        """Scores with their intervals."""
        return _json(await desk.do(desk.find(request), lambda state: state.score_table()))

    async def log(request: Request) -> Response:
        """Terms over training after a step; live while the run trains."""
        run, since = desk.find(request), SINCE.read(request)
        return _json(await asyncio.get_running_loop().run_in_executor(None, run.log, since))

    async def operations(request: Request) -> Response:
        """The operations of the registry as forms."""
        return _json({"operations": forms.forms()})

    async def operate(request: Request) -> Response:
        """Run an operation: its result with names, links of its pictures, and the same in Python and on the shell."""
        run, operation = desk.find(request), OPERATIONS[request.path_params["operation"]]
        asked = await _body(request, OperateRequest)
        rows, params = forms.read_rows(asked.rows), forms.read_params(operation, asked.params)
        query = urlencode(_query(operation, rows, params))

        def work(state: _State) -> Any:
            shown = state.operate(operation, rows, params)
            path = str(state.run.path)
            return {
                **forms.result(shown, query),
                "python": forms.in_python(path, operation, rows, params),
                "command": forms.in_shell(path, operation, rows, params),
            }

        return _json(await desk.do(run, work))

    async def operated(request: Request) -> Response:
        """The result of an operation as a file: sheet, png, gif or csv; parameters in the query."""
        run, operation = desk.find(request), OPERATIONS[request.path_params["operation"]]
        kind = request.path_params["kind"]
        if kind not in FILES:
            raise unknown_name("kind of file", kind, FILES)
        given = dict(request.query_params)
        rows = forms.read_rows(given.pop("rows", None))
        params = forms.read_params(operation, given)

        shown, spec = await desk.do(run, lambda state: (state.operate(operation, rows, params), state.dataset.spec))
        if kind == "sheet":
            return _picture(await desk.draw(lambda: forms.sheet(shown, spec)))
        if kind == "csv":
            content = await desk.draw(lambda: forms.table(shown))
        else:
            content = await desk.draw(lambda: forms.picture(shown, spec, kind))
        return _download(content, f"{run.name}-{operation.name}.{kind}", FILES[kind])

    async def described(request: Request) -> Response:
        """This description."""
        return _json(describe(endpoints))

    run = "/api/runs/{run}"
    endpoints = [
        Endpoint("GET", "/api/runs", runs),
        Endpoint("GET", run, about),
        Endpoint("GET", f"{run}/rows", some_rows, (START, COUNT)),
        Endpoint("GET", f"{run}/input", one_row, (ROW,)),
        Endpoint("GET", f"{run}/rows/{{row:int}}.png", row_picture),
        Endpoint("POST", f"{run}/upload", upload, body="application/octet-stream"),
        Endpoint("POST", f"{run}/decode", decode, body=DecodeRequest),
        Endpoint("GET", f"{run}/draw", draw, (SEED,)),
        Endpoint("GET", f"{run}/knows", knows),
        Endpoint("GET", f"{run}/points", points),
        Endpoint("GET", f"{run}/scores", scores),
        Endpoint("GET", f"{run}/log", log, (SINCE,)),
        Endpoint("GET", "/api/operations", operations),
        Endpoint("POST", f"{run}/operations/{{operation}}", operate, body=OperateRequest),
        Endpoint("GET", f"{run}/operations/{{operation}}.{{kind}}", operated),
        Endpoint("GET", "/openapi.json", described),
    ]
    return [Route(each.path, _guarded(each.handler), methods=[each.method]) for each in endpoints]


def _query(operation: Any, rows: list[int] | None, params: Config) -> dict[str, str]:
    """The part of a link that restores a result."""
    given = {} if rows is None else {"rows": ",".join(map(str, rows))}
    for name, value in forms._changed(operation, params).items():
        given[name] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return given


def _codes(given: list[list[float]], columns: int) -> np.ndarray:
    """(n, D) from what a page sent."""
    lengths = {len(code) for code in given}
    if lengths != {columns}:
        wrong = next(length for length in lengths if length != columns)
        raise ConfigError(f"a code has {wrong} numbers: this run's have {columns}")
    codes = np.asarray(given, dtype=np.float64)
    if not np.isfinite(codes).all() or np.abs(codes).max(initial=0.0) > 1e6:
        raise ConfigError("a code has a number that is not finite or beyond a million")
    return codes.astype(np.float32)


# The page and the server ---------------------------------------------------------------------------------------------


async def _page(request: Request) -> Response:
    """The page and its parts: files of one folder, by name."""
    name = request.path_params.get("file", "index.html")
    found = {path.name: path for path in STATIC.iterdir() if path.suffix in TYPES}
    if name not in found:
        return _json({"error": f"there is no page {name[:60]!r} here: open /"}, 404)
    return FileResponse(found[name], media_type=TYPES[found[name].suffix], headers={"Cache-Control": "no-cache"})


async def _nowhere(request: Request, error: Exception) -> Response:
    return _json({"error": "there is nothing here: open /, or see /openapi.json"}, 404)


async def _not_so(request: Request, error: Exception) -> Response:
    return _json({"error": f"{request.method} is not possible here: see /openapi.json"}, 405)


async def _broken(request: Request, error: Exception) -> Response:
    return _json({"error": f"the explorer failed here ({type(error).__name__}): see its terminal"}, 500)


def build_app(paths: Sequence[str | Path], token: str | None = None) -> Guard:
    """The ASGI app for these run directories; `token` is demanded from everyone when given."""
    return _app(Desk(_named(paths)), token)


def _app(desk: Desk, token: str | None) -> Guard:
    app = Starlette(
        routes=[*_routes(desk), Route("/", _page), Route("/{file}", _page)],
        exception_handlers={404: _nowhere, 405: _not_so, Exception: _broken},
    )
    app.state.desk = desk
    return Guard(app, token)


def _named(paths: Sequence[str | Path]) -> list[OpenedRun]:
    """Runs by the names of their folders; a number tells two of one name apart."""
    found: dict[str, OpenedRun] = {}
    for path in map(Path, paths):
        base = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in path.resolve().name) or "run"
        name, number = base, 2
        while name in found:
            name, number = f"{base}-{number}", number + 1
        found[name] = OpenedRun(name, path)
    return list(found.values())


def serve(
    paths: Sequence[str | Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the page for these runs until stopped.

    host:  the interface; any other than the loopback demands a token, which is made when none is given
    port:  0 for a free one
    ready: called with the address of the page once the server listens
    """
    import uvicorn

    if host not in LOOPBACK and token is None:
        token = secrets.token_urlsafe(24)
    desk = Desk(_named(paths))
    app = _app(desk, token)
    listener = _listen(host, port)
    address = f"http://{_reached(host, listener)}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else "")
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", server_header=False)
    server = uvicorn.Server(config)
    desk.warm()

    async def run() -> None:
        task = asyncio.create_task(server.serve([listener]))
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        if ready is not None and server.started:
            ready(address)
        await task

    asyncio.run(run())


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named asyncio turns off Nagle's algorithm, which holds back the end of an answer for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UnweaveError(
            f"cannot serve at {host}:{port}: {error.strerror or error}; choose another --port or --host"
        ) from None
    return listener


def _reached(host: str, listener: socket.socket) -> str:
    """The host of the address to open: on all interfaces this machine's own, which others can open as well."""
    bound = listener.getsockname()[0]
    if bound in ("0.0.0.0", "::"):
        try:
            with socket.socket(listener.family, socket.SOCK_DGRAM) as probe:
                # A datagram socket that connects sends nothing: it only finds the interface that would be used.
                probe.connect(("192.0.2.1" if bound == "0.0.0.0" else "2001:db8::1", 9))
                host = probe.getsockname()[0]
        except OSError:  # no network, or none of this family
            host = socket.gethostname()
    return f"[{host}]" if ":" in host else host
