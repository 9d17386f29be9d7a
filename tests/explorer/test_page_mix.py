"""Swap and mix: the grids on the page against the operations of the library."""

import numpy as np
import pytest
from browser import address_of, link, pass_time, record, same, seen, until, wait_address

from unweave.media.pictures import clip_frames


def cell(page, row, column):
    return seen(page, f"[data-testid=result] canvas[data-row='{row}'][data-column='{column}']")


def wait_grid(page, expected, result):
    """Wait until the page's grid shows a result of the library, names and pictures."""
    until(lambda: page.locator(".view:visible .result-title").inner_text() == result.title, result.title, page)
    lines, heads = page.locator("[data-testid=result] tbody th"), page.locator("thead th:not(.player-name):visible")
    until(lambda: lines.all_text_contents() == list(result.rows), f"rows {result.rows}", page)
    until(lambda: heads.all_text_contents() == list(result.columns), f"columns {result.columns}", page)
    pictures = expected.grid(result.images)
    for row, column in np.ndindex(*pictures.shape[:2]):
        if np.isnan(result.images[row, column]).all():
            assert not page.locator(f"canvas[data-row='{row}'][data-column='{column}']").count()
        else:
            assert same(cell(page, row, column), pictures[row, column], by=1), (row, column)


def test_two_inputs_exchange_a_block(visit, hf):
    page = visit(link("mix", run="hf"))
    chips = page.locator(".input-chip")
    until(lambda: chips.count() == 4, "four inputs at first", page)
    rows = [int(text.strip()[1:]) for text in chips.all_text_contents()]
    for row in rows[2:]:
        page.locator(f".view:visible .thumb[data-row='{row}']").click()
    wait_address(page, rows=f"{rows[0]},{rows[1]}")
    page.get_by_label("style", exact=True).focus()
    page.keyboard.press("Space")
    chosen = until(lambda: address_of(page).get("parts"), "the address holds the parts", page).split(";")
    assert "style" in chosen
    wait_grid(page, hf, hf.state.run.operate("swap", rows[:2], blocks=chosen))


def test_members_of_a_group_are_added_one_by_one(visit, ml):
    page = visit(link("mix", run="ml", mode="accumulate"))
    page.wait_for_selector("[data-testid=result]")
    assert page.locator(".input-chip:visible").count() == 0  # the group of the data, not the chosen inputs
    columns = page.locator("[data-testid=result] thead th")
    members = columns.count() - 1
    assert members >= 3

    def shown():
        return sum(node.is_visible() for node in columns.all()) - 1

    assert shown() == members
    less = page.get_by_role("button", name="One member less")
    for _ in range(members - 1):
        less.click()
    assert shown() == 1
    assert less.is_disabled()
    page.locator("#add-member").click()
    assert page.locator("#members").inner_text() == f"2 of {members} members"
    assert shown() == 2
    rows = [int(name[1:]) for name in page.locator("[data-testid=result] tbody th").all_text_contents()]
    digits = {ml.state.factors_of(row)["digit"] for row in rows}
    assert len(digits) == 1
    expected = ml.grid(ml.state.run.operate("accumulate", rows).images)
    assert same(cell(page, 0, 2), expected[0, 2])


@pytest.mark.slow
def test_members_come_in_by_themselves(visit):
    page = visit(link("mix", run="ml", mode="accumulate"))
    page.wait_for_selector("[data-testid=result]")
    members = page.locator("[data-testid=result] thead th").count() - 1
    words = [f"{number} of {members} members" for number in range(1, members + 1)]
    recorded = record(page.locator("#members"))
    page.locator("#play-members").click()
    until(lambda: recorded() == [words[-1], *words], "all members came in, one by one", page)
    until(lambda: page.locator("#play-members").inner_text() == "Play", "it stops at the end", page)


@pytest.mark.slow
def test_members_may_be_the_chosen_inputs(visit, ml):
    rows = [int(row) for row in ml.state.rows[:3]]
    page = visit(link("mix", run="ml", mode="accumulate", rows=",".join(map(str, rows))))
    page.wait_for_selector("[data-testid=result]")
    page.locator("#own-members").check()
    wait_grid(page, ml, ml.state.run.operate("accumulate", rows))
    assert page.locator(".input-chip:visible").count() == 3


@pytest.mark.slow
def test_a_walk_between_inputs(visit, hf):
    rows = [int(row) for row in hf.state.rows[:2]]
    page = visit(link("mix", run="hf", rows=",".join(map(str, rows))))
    page.wait_for_selector("[data-testid=result]")
    page.get_by_role("button", name="Interpolate").click()
    page.locator("#mix-steps").fill("5")
    page.locator("#mix-steps").press("Enter")
    wait_grid(page, hf, hf.state.run.operate("interpolate", rows, steps=5))
    page.locator("#mix-across").select_option("style")
    wait_grid(page, hf, hf.state.run.operate("interpolate", rows, steps=5, across=["style"]))
    player = seen(page, ".result .player")
    page.locator(".result-play:visible").click()
    until(lambda: not same(seen(page, ".result .player"), player, by=0), "the way is played", page)


@pytest.mark.slow
def test_too_few_and_too_many_inputs(visit, hf):
    rows = [int(row) for row in hf.state.rows[:8]]
    page = visit(link("mix", run="hf", rows=",".join(map(str, rows))))
    page.wait_for_selector("[data-testid=result]")
    page.locator(".view:visible .thumb[aria-pressed=false]").first.click()
    page.get_by_text("At most 8 inputs").wait_for()
    for _ in range(7):
        page.locator(".input-chip button").first.press("Enter")
    page.get_by_text("Choose 2 to 8 inputs.").wait_for()


@pytest.mark.slow
def test_clips_are_swapped_and_played(visit, clips):
    rows = [int(row) for row in clips.state.rows[:2]]
    page = visit(link("mix", run="clips", rows=",".join(map(str, rows)), parts="factor_0"))
    page.wait_for_selector("[data-testid=result]")
    result = clips.state.run.operate("swap", rows, blocks=["factor_0"])
    frames = [frame.grid[0, 1] for frame in clip_frames(result.images, clips.state.dataset.spec)]
    met = set()

    def all_met():
        shown = cell(page, 0, 1)
        met.update(number for number, frame in enumerate(frames) if same(shown, frame, by=0))
        return len(met) == len(frames)

    until(all_met, "each frame of the first input is shown", page)
    page.locator(".result-play:visible").click()
    stood = cell(page, 0, 1)
    pass_time(page)
    assert same(cell(page, 0, 1), stood, by=0)
