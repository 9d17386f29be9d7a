"""Who may ask for what: hosts, tokens, sizes, and the headers of every answer. Plain ASGI, around the whole app.

On the loopback interface the page is open to the person at the machine, and to no page of another site: a request must
name a host of the loopback, and one that costs work (POST, or anything under /api) must come from this page or from no
page at all. Anywhere else a token is demanded, once in the link and then in a cookie that scripts cannot read.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from unweave.base.errors import ConfigError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_BODY = 9_000_000
COOKIE = "unweave_token"
TOKEN = re.compile(r"[A-Za-z0-9_-]{8,}")
"""Tokens that mean the same in a link, a cookie and a header, and are not guessed by trying."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """The app behind these rules.

    token: what a request must carry, None on the loopback interface
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], token: str | None = None):
        if token is not None and not TOKEN.fullmatch(token):
            raise ConfigError("the token must have at least 8 characters, all of them of a-z, A-Z, 0-9, - and _")
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            refused = self._refusal(scope, headers)
        except ValueError:
            refused = 400, "the request has a header that cannot be read"
        if refused is not None:
            await _answer(send, *refused)
            return
        if self.token is not None and self._in_link(scope):
            if scope["method"] == "GET" and not _is_work(scope):
                await self._keep_token(scope, headers, send)
                return
            # A program that asks with its token in the address has its answer at once, and no cookies to keep.
            scope = {**scope, "query_string": _without_token(scope).encode("latin-1")}
        taken = 0

        async def limited() -> MutableMapping[str, Any]:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MOST_BODY:
                raise TooLargeError
            return message

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_encoded(HEADERS)]
            await send(message)

        await self.app(scope, limited, with_headers)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Status and sentence of a request that is refused, None for one that is not."""
        host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        if self.token is None and host not in LOOPBACK:
            return 403, f"this page answers to localhost only, not to {host or 'a request without a host'!r}"
        origin, work = headers.get("origin"), _is_work(scope)
        if origin is not None and (work or scope["method"] != "GET") and urlsplit(origin).netloc != headers.get("host"):
            return 403, f"requests from pages of {origin!r} are refused: open the explorer's own page"
        # An image or a script of another page's comes without an origin, but browsers say where it was asked for.
        if work and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return 403, "requests from pages of other sites are refused: open the explorer's own page"
        if int(headers.get("content-length") or 0) > MOST_BODY:
            return 413, f"the request has more than {MOST_BODY:,} bytes: send less"
        if self.token is not None and not self._allowed(scope, headers):
            return 401, "this page needs its token: open the link that `unweave explore` printed"
        return None

    def _allowed(self, scope: Scope, headers: dict[str, str]) -> bool:
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        given = (bearer, *_cookies(headers, _cookie_name(headers)), self._in_link(scope) or "")
        return any(hmac.compare_digest(each.encode(), (self.token or "").encode()) for each in given if each)

    def _in_link(self, scope: Scope) -> str | None:
        return parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]

    async def _keep_token(self, scope: Scope, headers: dict[str, str], send: Send) -> None:
        """Put the token into a cookie and open the page without it in the address.

        The page, and not the path that was asked for: one like //elsewhere would lead away.
        """
        rest = _without_token(scope)
        # Lax, not Strict: the link may be clicked on a page of another site, and its cookie must survive the redirect.
        cookie = f"{_cookie_name(headers)}={self.token}; HttpOnly; SameSite=Lax; Path=/"
        await _answer(send, 303, "", {"Location": f"/?{rest}" if rest else "/", "Set-Cookie": cookie})


class TooLargeError(Exception):
    """A body is longer than its header said, or than any may be."""


def _is_work(scope: Scope) -> bool:
    """Whether a request asks for more than the files of the page."""
    return scope["path"].startswith("/api") or scope["path"] == "/openapi.json"


def _without_token(scope: Scope) -> str:
    """The query of a request without the token in it."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return urlencode([pair for pair in pairs if pair[0] != "token"])


def _cookie_name(headers: dict[str, str]) -> str:
    """The cookie of this port: browsers send the cookies of a host to all of its ports."""
    port = urlsplit(f"//{headers.get('host', '')}").port
    return COOKIE if port is None else f"{COOKIE}_{port}"


def _cookies(headers: dict[str, str], name: str) -> list[str]:
    """Values of the cookies of a name, whatever other programs of this host put beside them."""
    pairs = (part.partition("=") for part in headers.get("cookie", "").split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


async def _answer(send: Send, status: int, sentence: str, extra: dict[str, str] | None = None) -> None:
    body = sentence.encode()
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
        **HEADERS,
        **(extra or {}),
    }
    await send({"type": "http.response.start", "status": status, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": body})


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
