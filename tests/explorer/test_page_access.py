"""Access: by keyboard alone, with a screen reader, in both themes, on a laptop and on a tablet."""

from pathlib import Path

import pytest
from browser import VIEWS, link, ready, until, wait_address, wait_view

LAPTOP, TABLET = (1280, 800), (820, 1180)

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


def opened(visit, view, run="hf", **options):
    page = visit(link(view, run=run), **options)
    wait_view(page, view)
    return page


def unfold(page):
    """Open all folds, and wait for the lines of code in the last."""
    for fold in page.locator("details:visible").all():
        fold.evaluate("node => { node.open = true; }")
    page.locator(".view:visible .code-line code").first.wait_for()


def reachable(page):
    """(role, name) of everything that takes the focus, as a screen reader is told."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    for node in nodes:
        properties = {each["name"]: each["value"].get("value") for each in node.get("properties", [])}
        if properties.get("focusable") and not node.get("ignored"):
            yield node["role"]["value"], node.get("name", {}).get("value", "")


def nameless(page):
    return [
        role for role, name in reachable(page) if not name.strip() and role not in ("RootWebArea", "main", "generic")
    ]


@pytest.mark.parametrize("view", ["explore", *(pytest.param(view, marks=pytest.mark.slow) for view in list(VIEWS)[1:])])
def test_every_control_has_a_name(visit, view):
    page = opened(visit, view)
    unfold(page)
    found = list(reachable(page))
    assert len(found) > 12
    assert nameless(page) == []
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.evaluate("[...document.images].filter((image) => !image.hasAttribute('alt')).length") == 0
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert sorted(set(ids)) == sorted(ids)


@pytest.mark.slow
def test_sliders_and_pictures_tell_what_they_are(visit, hf):
    page = opened(visit, "explore")
    name = hf.by_information()[0]["name"]
    slider = page.get_by_role("slider", name=name)
    slider.press("End")
    told = slider.get_attribute("aria-valuetext")
    assert float(told) == pytest.approx(float(slider.input_value()), abs=0.006)
    for title in ("Input", "Reconstruction", "Yours"):
        assert page.get_by_role("img", name=title, exact=True).count() == 1
    assert page.locator("#toast").get_attribute("role") == "status"
    assert page.locator("#banner").get_attribute("role") == "alert"


def test_views_are_opened_by_keyboard(visit):
    page = opened(visit, "explore")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("#tab-explore").focus()
    for view in ("mix", "understand"):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        wait_view(page, view)
        wait_address(page, view=view)
        assert page.locator(f"#tab-{view}").get_attribute("aria-selected") == "true"
        assert page.locator("[role=tabpanel]:visible").get_attribute("id") == f"panel-{view}"


def test_the_tab_key_reaches_everything_and_what_has_the_focus_is_seen(visit):
    page = opened(visit, "explore")
    met = []
    for _ in range(80):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => {
                const node = document.activeElement;
                const style = getComputedStyle(node);
                const shown = node.classList.contains("unseen") ? getComputedStyle(node.parentElement) : style;
                const marked = shown.outlineStyle !== "none" || node.matches(":focus-within.drop, .drop *");
                return [node === document.body ? "" : node.id || node.className || node.tagName, marked];
            }"""
        )
        if found[0] in ("", "skip") and met:
            break
        met.append(found[0])
        assert found[1], found
    for wanted in (
        "run-select",
        "tab-explore",
        "theme-toggle",
        "thumb",
        "play",
        "random",
        "pad",
        "pad-x",
        "strip-cell",
    ):
        assert wanted in met, wanted
    assert len(met) < 80  # grids are one stop each


@pytest.mark.parametrize("theme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
@pytest.mark.parametrize("view", ["explore", *(pytest.param(view, marks=pytest.mark.slow) for view in list(VIEWS)[1:])])
def test_text_can_be_read_in_both_themes(visit, view, theme):
    page = opened(visit, view, color_scheme=theme)
    unfold(page)
    assert page.evaluate(CONTRAST) == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(dark.split("(")[1].split(",")[0]) < 60) == (theme == "dark")


@pytest.mark.slow
def test_the_theme_is_changed_and_kept(visit):
    page = opened(visit, "explore", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.locator("#theme-toggle").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    ready(page)
    assert page.evaluate(ground) == dark
    page.locator("#theme-toggle").press("Enter")
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("run", ["hf", pytest.param("clips", marks=pytest.mark.slow)])
def test_nothing_is_wider_than_the_screen(visit, run):
    page = opened(visit, "explore", run, size=LAPTOP)
    for view, (title, _) in VIEWS.items():
        page.get_by_role("tab", name=title).click()
        wait_view(page, view)
        for width, height in (LAPTOP, TABLET):
            page.set_viewport_size({"width": width, "height": height})
            until(lambda width=width: page.evaluate("innerWidth") == width, "the new size", page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (view, width)
            outside = page.evaluate(
                """() => [...document.querySelectorAll(".card, .keep, .top, button, select, h2")]
                    .filter((node) => node.checkVisibility())
                    .filter((node) => !node.closest("[class*=scroll], .thumbs, .strip-cells, .tabs, .skip"))
                    .filter((node) => {
                        const around = node.parentElement.closest(".card")?.getBoundingClientRect().right ?? innerWidth;
                        return node.getBoundingClientRect().right > Math.min(around, innerWidth) + 1;
                    })
                    .map((node) => node.className || node.id || node.textContent)"""
            )
            assert outside == [], (view, width)


@pytest.mark.slow
def test_on_a_tablet_pictures_and_sliders_are_on_one_screen(visit, hf):
    page = opened(visit, "explore", size=TABLET, has_touch=True)
    picture = page.locator("#edited-picture").bounding_box()
    slider = page.locator(f"input[data-knob='{hf.by_information()[0]['name']}']")
    assert picture["y"] > 0
    assert slider.bounding_box()["y"] + 30 < TABLET[1]
    before = float(slider.input_value())
    box = slider.bounding_box()
    page.touchscreen.tap(box["x"] + 0.9 * box["width"], box["y"] + box["height"] / 2)
    until(lambda: float(slider.input_value()) != before, "a tap moves the slider", page)
