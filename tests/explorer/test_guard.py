"""Who may ask for what: other hosts, pages of other sites, tokens in links, cookies and headers; and how to serve."""

import functools
import signal
import socket
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browser import until
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from unweave.base.errors import ConfigError
from unweave.cli import main
from unweave.explorer import guard, server
from unweave.explorer.guard import Guard

TOKEN = "a-token_of-8-or-more"
HOME, ELSEWHERE = "http://localhost:8000", "http://192.0.2.7:8080"


async def echo(request):
    return JSONResponse({"path": request.url.path, "query": dict(request.query_params)})


def client(token=None, base_url=HOME):
    app = Starlette(routes=[Route("/{path:path}", echo, methods=["GET", "POST"])])
    return TestClient(Guard(app, token), base_url=base_url, follow_redirects=False)


# Pages of other sites ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000"])
def test_the_loopback_is_answered(host):
    assert client().get("/api/runs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::2]", "127.0.0.2", "0.0.0.0:8000"])
def test_other_hosts_are_refused(host):
    answer = client().get("/api/runs", headers={"Host": host})
    assert answer.status_code == 403
    assert "localhost only" in answer.text


@pytest.mark.parametrize("path", ["/api/runs/hf/operations/swap.png", "/api/runs", "/openapi.json"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("token", [None, TOKEN])
def test_other_pages_get_nothing_that_costs_work(path, site, token):
    """As an image on a page of another site, or of another port of this host, asks for it: without an origin."""
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    for method in ("GET", "POST", "HEAD"):
        answer = client(token).request(method, path, headers=headers)
        assert answer.status_code == 403
    assert "open the explorer's own page" in client(token).get(path, headers=headers).text


@pytest.mark.parametrize("site", ["same-origin", "none", None])
def test_the_page_itself_and_programs_are_answered(site):
    headers = {"Sec-Fetch-Site": site} if site else {}
    for path in ("/api/runs", "/openapi.json", "/"):
        assert client().get(path, headers=headers).status_code == 200
    assert client().post("/api/runs", headers={**headers, "Origin": HOME}).status_code == 200


def test_links_of_other_pages_lead_here():
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client().get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:9000", "null", "https://localhost"])
def test_other_origins_are_refused(origin):
    headers = {"Origin": origin}
    assert client().get("/api/runs", headers=headers).status_code == 403
    assert client().post("/api/runs", headers=headers).status_code == 403
    assert client().post("/", headers=headers).status_code == 403
    assert client().get("/", headers=headers).status_code == 200


# Tokens --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "short-7", "a&b #c and more", "späteinsatz", "with;part", "line-end\n"])
def test_tokens_that_no_link_can_hold_are_refused(token):
    with pytest.raises(ConfigError, match="at least 8 characters"):
        client(token)


def test_a_token_is_demanded():
    page = client(TOKEN, ELSEWHERE)
    for path in ("/", "/api/runs", "/app.js", "/?token=wrong", "/api/runs?token=", f"/?TOKEN={TOKEN}"):
        answer = page.get(path)
        assert answer.status_code == 401, path
        assert "unweave explore" in answer.text
    assert page.get("/api/runs", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert page.get("/api/runs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert page.post("/api/runs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_link_leaves_a_cookie_and_an_address_without_the_token():
    page = client(TOKEN, ELSEWHERE)
    clicked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    entered = page.get(f"/?token={TOKEN}&x=1&y=", headers=clicked)
    assert entered.status_code == 303
    assert entered.headers["location"] == "/?x=1&y="
    parts = entered.headers["set-cookie"].split("; ")
    assert parts[0] == f"unweave_token_8080={TOKEN}"
    assert set(parts[1:]) == {"HttpOnly", "SameSite=Lax", "Path=/"}  # Strict is not sent on after another site's link
    assert page.get("/", headers=clicked).status_code == 200  # the cookie is kept
    assert page.get("/api/runs", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert page.get("/api/runs", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/%E2%82%AC", "/%0d%0aSet-Cookie:x=1", "/app.js", "/\\evil.example"]
)
def test_the_link_opens_the_page_whatever_its_path(path):
    entered = client(TOKEN, ELSEWHERE).get(f"{ELSEWHERE}{path}?token={TOKEN}&k=%E2%82%AC%0d%0a")
    assert entered.status_code == 303
    assert entered.headers["location"] == "/?k=%E2%82%AC%0D%0A"


@pytest.mark.parametrize("path", ["/api/runs", "/openapi.json"])
def test_programs_may_have_the_token_in_the_address(path):
    page = client(TOKEN, ELSEWHERE)
    answer = page.get(f"{path}?token={TOKEN}&rows=1,2&empty=")
    assert answer.status_code == 200
    assert answer.json() == {"path": path, "query": {"rows": "1,2", "empty": ""}}  # the token is no parameter of theirs
    assert "set-cookie" not in answer.headers
    assert page.post(f"{path}?token={TOKEN}").status_code == 200
    assert page.post(f"{path}?token=wrong-one").status_code == 401


@pytest.mark.parametrize(
    "others",
    ["a=\x01b; ", "=;; ;", 'json={"a": [1, "b"]}; ', "bad name=1;", 'open="; ', "unweave_token_8080=older; "],
)
def test_cookies_of_other_programs_lock_nobody_out(others):
    page = client(TOKEN, ELSEWHERE)
    assert page.get("/", headers={"Cookie": f"{others}unweave_token_8080={TOKEN}"}).status_code == 200
    assert page.get("/", headers={"Cookie": f"unweave_token_8080={TOKEN};{others}"}).status_code == 200
    assert page.get("/", headers={"Cookie": others}).status_code == 401


def test_two_explorers_on_one_host_have_a_cookie_each():
    """Browsers send the cookies of a host to all of its ports."""
    first, second = client(TOKEN, ELSEWHERE), client("another-token", "http://192.0.2.7:8081")
    cookies = [
        first.get(f"/?token={TOKEN}").headers["set-cookie"].split(";")[0],
        second.get("/?token=another-token").headers["set-cookie"].split(";")[0],
    ]
    assert cookies[0].split("=")[0] != cookies[1].split("=")[0]
    for page in (first, second):
        page.cookies.clear()
        assert page.get("/", headers={"Cookie": "; ".join(cookies)}).status_code == 200
    assert first.get("/", headers={"Cookie": cookies[1]}).status_code == 401


@pytest.mark.parametrize("header", [{"Content-Length": "many"}, {"Host": "[::1"}, {"Host": "192.0.2.7:port"}])
def test_headers_that_cannot_be_read_are_told(header):
    answer = client(TOKEN, ELSEWHERE).get("/api/runs", headers=header)
    assert answer.status_code == 400
    assert "cannot be read" in answer.text


@pytest.mark.slow
def test_in_a_browser_links_of_other_sites_open_the_page_and_their_images_get_nothing(
    visit, serve, hf, tmp_path, monkeypatch
):
    visit.expected += ["403", "ERR_"]
    refused, answer = [], guard._answer

    async def heard(send, status, sentence, extra=None):  # the browser keeps it from the page, and from this test
        if status != 303:
            refused.append((status, sentence))
        await answer(send, status, sentence, extra)

    monkeypatch.setattr(guard, "_answer", heard)
    explorer = serve(hf.path, token=TOKEN)
    image = f"{explorer.address}api/runs/hf/rows/17.png?token={TOKEN}"
    link = f"<a href='{explorer.address}?token={TOKEN}'>open</a>"
    (tmp_path / "index.html").write_text(f"<link rel=icon href=data:,><img src='{image}'>{link}")
    other = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path))
    thread = threading.Thread(target=other.serve_forever, daemon=True)
    thread.start()
    try:
        page = visit(f"http://localhost:{other.server_port}/")  # another site than 127.0.0.1
        until(lambda: refused, "the image is refused", page)
        assert [status for status, _ in refused] == [403]
        page.get_by_text("open").click()
        page.wait_for_selector("#tabs")
        assert page.url.startswith(explorer.address)
        assert TOKEN not in page.url
    finally:
        other.shutdown()
        other.server_close()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


# Serving -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Serves, with what options are given, a server that ends at once; gives its app, address and socket's own."""

    class Server:
        def __init__(self, config):
            self.started = True
            found["app"] = config.app

        async def serve(self, sockets):
            found["bound"] = sockets[0].getsockname()[:2]
            for each in sockets:
                each.close()

    found = {}
    monkeypatch.setattr("uvicorn.Server", Server)

    def start(**options):
        server.serve([tmp_path / "run"], ready=lambda address: found.update(address=address), **options)
        return found["app"], found["address"], found["bound"]

    return start


def test_the_loopback_needs_no_token(started):
    app, address, (_, port) = started()
    assert app.token is None
    assert address == f"http://127.0.0.1:{port}/"


def test_a_token_on_the_loopback_is_demanded_when_given(started):
    app, address, (_, port) = started(token=TOKEN)
    assert app.token == TOKEN
    assert address == f"http://127.0.0.1:{port}/?token={TOKEN}"


def test_on_all_interfaces_a_token_is_made_and_the_address_is_one_for_others(started, monkeypatch):
    app, address, (bound, port) = started(host="0.0.0.0")
    assert bound == "0.0.0.0"
    assert len(app.token) >= 32
    assert address.endswith(f":{port}/?token={app.token}")
    assert "0.0.0.0" not in address

    def unreachable(self, address):
        raise OSError("no network")

    monkeypatch.setattr(server.socket, "gethostname", lambda: "the-machine")
    monkeypatch.setattr(server.socket.socket, "connect", unreachable, raising=False)
    app, address, (_, port) = started(host="0.0.0.0")
    assert address == f"http://the-machine:{port}/?token={app.token}"


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_on_all_interfaces_of_the_newer_kind(started):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    _, address, (bound, _) = started(host="::")
    assert bound == "::"
    assert "[::]" not in address


@pytest.mark.parametrize("token", ["", "a&b #c", "short"])
def test_a_bad_token_is_one_line(token, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("unweave.runs.manifest.read_manifest", lambda path: None)
    with pytest.raises(SystemExit) as stopped:
        main(["explore", str(tmp_path), "--no-browser", "--token", token])
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: the token must have at least 8 characters")
    assert shown.err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.timeout(120)
def test_ctrl_c_ends_the_server_quietly(trained):
    command = [sys.executable, "-m", "unweave", "explore", str(trained / "plain"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert "The explorer is at http://127.0.0.1:" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60) == ("stopped\n", "")
        finally:
            process.kill()
    assert process.returncode == 0
