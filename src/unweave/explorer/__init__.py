"""The explorer: a page on which a person sees and moves what trained representations know.

`serve` runs a small ASGI server (Starlette on uvicorn) that opens runs, decodes codes and runs the operations of the
registry; the page in `static/` is plain HTML, CSS and JavaScript modules, without a build step and without a network.

    opened.py    a run on the page: its system, inputs, codes of a sample, what its dimensions know
    desk.py      the threads that work on runs
    decoder.py   codes to pictures: batched, remembered, and of a moving slider only the latest
    forms.py     operations as forms: parameters from links and bodies, results as sheets, the same in Python and shell
    uploads.py   an image of the user's own as an observation
    guard.py     who may ask for what: hosts, tokens, sizes, headers
    openapi.py   endpoints with the numbers they read, and their OpenAPI description
    server.py    who answers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave.explorer.server import build_app, serve

__all__ = ["build_app", "serve"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from unweave.explorer import server

        return getattr(server, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
