"""Who may ask for what: hosts, tokens, sizes, and the headers of every answer. Plain ASGI, around the whole app.

On the loopback interface the page is open to the person at the machine, and to no page of another site: a request must
name a host of the loopback, and one that changes nothing but costs work (POST) must come from this page or from no page
at all. Anywhere else a token is demanded, once in the link and then in a cookie that scripts cannot read.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_BODY = 9_000_000
COOKIE = "unweave_token"
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
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            refused = self._refusal(scope, headers)
        except (ValueError, CookieError):
            refused = 400, "the request has a header that cannot be read"
        if refused is not None:
            await _answer(send, *refused)
            return
        if self.token is not None and scope["method"] == "GET" and self._in_link(scope):
            await self._keep_token(scope, send)
            return
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
        origin = headers.get("origin")
        if origin is not None and scope["method"] != "GET" and urlsplit(origin).netloc != headers.get("host"):
            return 403, f"requests from pages of {origin!r} are refused: open the explorer's own page"
        if int(headers.get("content-length") or 0) > MOST_BODY:
            return 413, f"the request has more than {MOST_BODY:,} bytes: send less"
        if self.token is not None and not self._allowed(scope, headers):
            return 401, "this page needs its token: open the link that `unweave explore` printed"
        return None

    def _allowed(self, scope: Scope, headers: dict[str, str]) -> bool:
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        given = (bearer, cookie.value if cookie is not None else "", self._in_link(scope) or "")
        return any(hmac.compare_digest(each.encode(), (self.token or "").encode()) for each in given if each)

    def _in_link(self, scope: Scope) -> str | None:
        return parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]

    async def _keep_token(self, scope: Scope, send: Send) -> None:
        """Put the token into a cookie and open the same page without it in the address."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        query.pop("token")
        rest = f"?{urlencode(query, doseq=True)}" if query else ""
        cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
        await _answer(send, 303, "", {"Location": f"{scope['path']}{rest}", "Set-Cookie": cookie})


class TooLargeError(Exception):
    """A body is longer than its header said, or than any may be."""


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
