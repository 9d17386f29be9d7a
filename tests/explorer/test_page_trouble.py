"""Trouble: runs that vanish or are damaged, a server that stops, bad links, and attacks. Never a blank page."""

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from browser import (
    VIEWS,
    Visit,
    answer,
    link,
    pass_time,
    ready,
    same,
    seen,
    until,
    wait_address,
    wait_picture,
    wait_view,
)

from unweave.runs import train

SMALL = {"nets.hidden": [16], "training.steps": 20, "training.batch_size": 16}


def move(page, expected):
    """Move the first slider, which asks the server for a picture."""
    name = expected.by_information()[0]["name"]
    page.locator(f"input[data-knob='{name}']").focus()
    page.keyboard.press("End")


def wait_moved(page, expected):
    """Wait for the picture of the slider that was moved, with row 17 as the input."""
    name = expected.by_information()[0]["name"]
    value = float(page.locator(f"input[data-knob='{name}']").input_value())
    wait_picture(page, "#edited-picture", expected.picture(expected.turned(expected.code(17), name, value)))


def message(page):
    """The text of the message that stays."""
    page.wait_for_selector("#banner:not([hidden])")
    return page.locator("#banner-text").inner_text()


def retry(page):
    """Press Retry, which may be gone by now: a page that could not open its run also looks again by itself."""
    page.locator("#retry").dispatch_event("click")


@pytest.fixture
def alone(hf, serve, tmp_path):
    """A server of a copy of `hf` that the test may damage."""
    run = shutil.copytree(hf.path, tmp_path / "alone")
    return serve(run), run


def test_a_run_that_is_deleted_while_it_is_open(visit, alone, hf, tmp_path):
    visit.expected.append("410")
    server, run = alone
    page = visit(server.address + link(row=17))
    ready(page)
    shutil.move(run, tmp_path / "away")
    move(page, hf)
    assert str(run) in message(page)
    assert page.locator("#input-picture").is_visible()
    page.get_by_role("tab", name="Swap & mix").click()
    page.locator(".result-pane:visible .note", has_text=str(run)).wait_for()
    shutil.move(tmp_path / "away", run)
    page.get_by_role("button", name="Retry").click()
    page.locator("#banner").wait_for(state="hidden")
    page.get_by_role("tab", name="Explore").click()
    wait_moved(page, hf)
    wait_picture(page, "#input-picture", hf.row(17), by=0)


@pytest.mark.slow
def test_a_run_that_is_damaged_while_it_is_open(visit, alone, hf):
    visit.expected.append("410")
    server, run = alone
    page = visit(server.address + link(row=17))
    ready(page)
    for name in ("state.safetensors", "weights.safetensors"):
        if (run / name).exists():
            (run / name).write_bytes(b"nothing")
    move(page, hf)
    assert "damaged" in message(page)
    assert same(seen(page, "#input-picture"), hf.row(17), by=0)
    page.reload()
    assert "damaged" in message(page)
    assert page.get_by_role("tab").count() == 5


def test_a_server_that_stops_and_comes_back(visit, serve, hf):
    visit.expected += ["ERR_", "Failed to load resource"]
    server = serve(hf.path)
    page = visit(server.address + link(row=17))
    ready(page)
    server.stop()
    move(page, hf)
    assert "does not answer" in message(page)
    assert same(seen(page, "#input-picture"), hf.row(17), by=0)
    serve(hf.path, port=server.port)
    page.get_by_role("button", name="Retry").click()
    page.locator("#banner").wait_for(state="hidden")
    wait_moved(page, hf)


@pytest.mark.slow
def test_a_run_that_cannot_be_opened_leaves_nothing_of_the_one_before(visit, serve, hf, plain, tmp_path):
    visit.expected.append("410")
    broken = shutil.copytree(plain.path, tmp_path / "broken")
    page = visit(serve(hf.path, broken).address + link(run="hf", row=17))
    ready(page)
    (broken / "weights.safetensors").write_bytes(b"nothing")
    (broken / "state.safetensors").unlink(missing_ok=True)
    page.locator("#play").click()
    page.locator("#run-select").select_option("broken")
    assert "damaged" in message(page)
    assert page.locator("#input-picture").is_hidden()
    shutil.copy(plain.path / "weights.safetensors", broken)
    retry(page)
    wait_picture(page, "#input-picture", plain.row(17), by=0)
    page.locator("#banner").wait_for(state="hidden")


@pytest.mark.slow
def test_a_run_whose_data_are_gone_says_so_until_they_are_back(visit, serve, tmp_path):
    visit.expected += ["400", "410"]
    data = tmp_path / "own.npy"
    np.save(data, np.random.default_rng(0).random((60, 1, 8, 8), dtype=np.float32))
    train("betavae", data, settings=SMALL, run=tmp_path / "run", progress=False, threads=1)
    data.rename(tmp_path / "away.npy")
    page = visit(serve(tmp_path / "run").address)
    assert "own.npy" in message(page)
    pass_time(page, 7500)  # longer than a short message stays
    assert "own.npy" in message(page)
    (tmp_path / "away.npy").rename(data)
    retry(page)
    ready(page)
    page.locator("#banner").wait_for(state="hidden")


@pytest.mark.slow
def test_a_run_of_an_unknown_system_says_so(visit, alone):
    visit.expected += ["404", "410"]
    server, run = alone
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**manifest, "system": "nowhere"}))
    page = visit(server.address)
    assert "nowhere" in message(page)


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 404, 410])
def test_a_run_that_does_not_open_is_told_of_whatever_the_status(visit, status):
    visit.expected.append(str(status))
    visit.expected.append("404")  # a picture that is opened by itself has no icon
    page = visit("icon.svg")
    page.route("**/api/runs/hf", lambda route: route.fulfill(status=status, json={"error": "a sentence"}))
    page.goto(visit.address + link(run="hf"))
    assert message(page) == "a sentence"
    page.unroute("**/api/runs/hf")
    page.locator("#banner").wait_for(state="hidden")  # it is looked at again by itself
    ready(page)


@pytest.mark.slow
def test_a_training_run_that_is_deleted_is_missed_without_a_move(visit, alone, tmp_path):
    visit.expected.append("410")
    server, run = alone
    page = visit("icon.svg")
    visit.expected.append("404")  # a picture that is opened by itself has no icon

    def as_training(route):
        answer = route.fetch()
        if answer.status == 200:
            route.fulfill(response=answer, json={**answer.json(), "training": True})
        else:
            route.fulfill(response=answer)

    page.route("**/api/runs/alone", as_training)
    page.goto(server.address + link(row=17))
    ready(page)
    shutil.move(run, tmp_path / "away")
    assert str(run) in message(page)
    shutil.move(tmp_path / "away", run)
    page.locator("#banner").wait_for(state="hidden")  # and found again


BAD = [
    link("nowhere", run="hf"),
    link(run="hf", set="style[0]:abc;nothing:3;digit:99;:;;style[1]:1e999", pick="x", x="y", row="-1"),
    link(run="hf", seed="99999999999999999999", vs="hf", own=""),
    "#%%%&&&===???",
    link(run="hf", row="17", set="a" * 4000),
]


@pytest.mark.slow
@pytest.mark.parametrize("there", BAD)
def test_bad_links_open_the_page_all_the_same(visit, hf, there):
    page = visit(there)
    ready(page)
    row = int(page.locator(".figure.input .figure-note").first.inner_text()[1:])
    wait_picture(page, "#edited-picture", hf.picture(hf.code(row)))


@pytest.mark.slow
def test_a_link_to_what_is_not_there_says_so(visit, hf):
    visit.expected.append("400")
    page = visit(link(run="gone", row=5))
    page.get_by_text("There is no run gone on this page.").wait_for()
    ready(page)
    wait_address(page, run="hf")
    page = visit(link(run="hf", own="@@@"))
    page.get_by_text("no image that can be read").wait_for()
    ready(page)


def test_names_in_a_link_are_text_and_inline_scripts_do_not_run(visit):
    visit.expected += ["Content Security Policy", "404"]
    evil = "<img src=x onerror=window.evil=1><script>window.evil=1</script>"
    page = visit(link(run=evil))
    page.locator("#toast", has_text="There is no run <img src=x").wait_for()
    ready(page)
    page.evaluate(
        """() => {
            window.refused = [];
            const keep = (event) => window.refused.push(event.effectiveDirective);
            document.addEventListener("securitypolicyviolation", keep);
            const script = document.createElement("script");
            script.textContent = "window.evil = 1";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.evil = 1'>");
            document.body.lastChild.addEventListener("error", () => window.refused.push("the picture"));
            const other = document.createElement("script");
            other.src = "https://example.com/evil.js";
            document.body.append(other);
        }"""
    )
    wanted = {"script-src-elem", "script-src-attr", "the picture"}
    until(lambda: wanted <= set(page.evaluate("window.refused")), "refusals", page)
    assert page.evaluate("window.evil ?? null") is None


@pytest.mark.slow
def test_a_slow_answer_of_an_earlier_view_does_not_take_the_place_of_a_later_one(visit, hf):
    visit.expected.append("404")  # a picture that is opened by itself has no icon
    page = visit("icon.svg")
    held = {"rows": [], "input": []}
    holding = True
    for name in held:
        hold = lambda route, _, name=name: held[name].append(route) if holding else route.continue_()  # noqa: E731
        page.route(f"**/api/runs/hf/{name}?*", hold)
    page.goto(visit.address + link(run="hf"))
    until(lambda: len(held["rows"]) == 1, "the first view asks for rows", page)
    page.evaluate("location.hash = '#explore?run=hf&set=digit:3'")
    until(lambda: len(held["rows"]) == 2, "the second view asks for rows", page)
    held["rows"][1].continue_()
    until(lambda: held["input"], "the second view asks for its input", page)
    answer(page, held["rows"][0])
    holding = False
    for route in held["input"]:
        answer(page, route)
    ready(page)
    row = int(hf.state.rows[0])
    wait_picture(page, "#edited-picture", hf.picture(hf.turned(hf.code(row), "digit", 3)))


@pytest.mark.slow
def test_a_slow_picture_of_an_earlier_input_does_not_take_the_place_of_a_later_one(visit, hf):
    page = visit(link(run="hf", row=17))
    ready(page)
    held, holding = [], True
    page.route("**/decode", lambda route: held.append(route) if holding else route.continue_())
    first, second = (int(row) for row in hf.state.rows[:2])
    page.locator(f".thumb[data-row='{first}']").click()
    until(lambda: len(held) == 2, "the first input asks for its reconstruction and for yours", page)
    holding = False
    page.locator(f".thumb[data-row='{second}']").click()
    wait_picture(page, "#reconstruction-picture", hf.picture(hf.code(second)))
    for route in held:
        answer(page, route)
    wait_picture(page, "#edited-picture", hf.picture(hf.code(second)))
    assert same(seen(page, "#reconstruction-picture"), hf.picture(hf.code(second)))


@pytest.mark.slow
def test_the_page_asks_nobody_but_its_server(visit, served):
    page = visit()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    ready(page)
    for view, (title, _) in VIEWS.items():
        page.get_by_role("tab", name=title).click()
        wait_view(page, view)
    assert len(asked) > 40
    assert [url for url in asked if not url.startswith((served.address, "blob:", "data:"))] == []


@pytest.fixture
def elsewhere():
    """The address of a page of another origin, which allows itself everything."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><link rel=icon href=data:,><h1>elsewhere</h1>")

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_pages_of_other_sites_are_refused(elsewhere, visit, serve, hf):
    visit.expected += ["CORS", "ERR_", "Failed to load resource", "frame"]
    page = visit(elsewhere)
    served = serve(hf.path)  # its own: nobody else asks it for pictures
    decoder = served.app.app.state.desk.decoders["hf"]
    made, body = decoder.batches, json.dumps({"codes": [[0.125] * len(hf.about["columns"])]})
    post = f"fetch('{served.address}api/runs/hf/decode', {{method: 'POST', mode: 'no-cors', body: '{body}'}})"
    assert page.evaluate(f"{post}.then(() => 'done').catch(() => 'refused')") == "refused"
    assert decoder.batches == made
    same_site = visit(served.address)
    ready(same_site)
    before = decoder.batches
    assert same_site.evaluate(f"{post.replace('no-cors', 'same-origin')}.then((answer) => answer.status)") == 200
    assert decoder.batches == before + 1  # the same request of the page itself is answered
    read = f"fetch('{served.address}api/runs').then(() => 'read').catch(() => 'refused')"
    assert page.evaluate(read) == "refused"
    page.evaluate(
        """address => new Promise((done) => {
            const frame = Object.assign(document.createElement("iframe"), { src: address, onload: done });
            document.body.append(frame);
        })""",
        served.address,
    )
    until(lambda: any("frame-ancestors" in error for error in visit.errors), "the frame is refused", page)
    assert page.frames[1].evaluate("document.querySelector('#tabs')") is None


@pytest.mark.slow
def test_elsewhere_the_page_needs_its_token(visit, serve, hf):
    visit.expected.append("401")
    server = serve(hf.path, token="secret-of-this-test")
    refused = visit(server.address)
    assert "needs its token" in refused.locator("body").inner_text()
    page = visit(server.address + "?token=secret-of-this-test" + link(row=17))
    ready(page)
    wait_picture(page, "#input-picture", hf.row(17), by=0)
    assert "secret" not in page.url
    assert page.evaluate("document.cookie") == ""  # scripts cannot read it


@pytest.mark.slow
def test_an_upload_that_is_too_large_is_refused(visit, hf):
    visit.expected += ["413", "400"]
    page = visit(link(run="hf", row=17))
    ready(page)
    for size, sentence in ((8_500_000, "at most 8,000,000 are read"), (9_500_000, "send less")):
        page.locator("[data-testid=own-image]").evaluate(
            """(chooser, size) => {
                const files = new DataTransfer();
                files.items.add(new File([new Uint8Array(size)], "big.png", { type: "image/png" }));
                chooser.files = files.files;
                chooser.dispatchEvent(new Event("change"));
            }""",
            size,
        )
        page.get_by_text(sentence).wait_for()
    assert same(seen(page, "#input-picture"), hf.row(17), by=0)


@pytest.mark.slow
def test_an_error_on_the_page_fails_its_test(browser, served):
    visit = Visit(browser, served.address)
    page = visit()
    page.evaluate("console.error('one'); setTimeout(() => { throw new Error('two'); })")
    until(lambda: len(visit.errors) == 2, "both are heard", page)
    visit.expected.append("one")
    assert len(visit.unexpected()) == 1
    visit.close()
