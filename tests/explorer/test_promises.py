"""What the page says of the digits, in numbers: models that keep its promises, and models that break each of them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from unweave.base.errors import UnweaveError
from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.data import SHAPE_MEASURES, measure_shape
from unweave.explorer.promises import SHAPE, Trial, correlations, main, moves, of_category, of_swaps, promises
from unweave.runs import Run, train
from unweave.runs.sample import write_sample

SIDE = 20
STEM, TOP, FOOT = (4, 10, 16, 10), (4, 6, 4, 14), (16, 6, 16, 14)
GLYPHS = {0: [STEM], 1: [STEM, TOP], 2: [STEM, TOP, FOOT]}


def glyph(digit: int, slant: float) -> np.ndarray:
    """(1, H, W) a letter I with two serifs, one or none; it leans to the right by `slant` pixels for each row."""
    image = np.zeros((1, SIDE, SIDE), dtype=np.float32)
    for top, left, bottom, right in GLYPHS[digit]:
        for step in np.linspace(0, 1, 60):
            i, j = top + step * (bottom - top), left + step * (right - left)
            column = round(j + slant * (10 - i))
            image[0, round(i), np.clip([column, column + 1], 0, SIDE - 1)] = 1
    return image


@pytest.fixture
def letters():
    """Random letters, which they are, and their slants."""
    rng = np.random.default_rng(3)
    digits, slants = rng.integers(3, size=300), rng.uniform(-0.4, 0.4, size=300)
    images = np.stack([glyph(digit, slant) for digit, slant in zip(digits, slants, strict=True)])
    return images, digits, slants


def trial(letters, render, kind="real"):
    images, digits, slants = letters
    blocks = (Block("content", (3,), kind=kind), Block("style", (2,)))
    style = np.stack([slants / 0.2, np.zeros(300)], axis=1).astype(np.float32)
    codes = Codes(blocks, {"content": np.eye(3, dtype=np.float32)[digits], "style": style})
    run = SimpleNamespace(system=lambda: SimpleNamespace(render=render))
    return Trial(run, codes.take(np.arange(150)), images[:150], digits[:150], images[150:], digits[150:])


def honest(codes):
    pairs = zip(codes["content"].argmax(axis=1), 0.2 * codes["style"][:, 0], strict=True)
    return np.stack([glyph(digit, slant) for digit, slant in pairs])


def upright(codes):
    return np.stack([glyph(digit, 0) for digit in codes["content"].argmax(axis=1)])


def test_a_model_that_keeps_who_and_how_apart(letters):
    found = of_swaps(trial(letters, honest))
    assert found["content"] > 0.95
    assert found["style"] < 0.05
    assert found["slant"] > 0.8
    assert abs(found["slant of content"]) < 0.3


def test_a_model_whose_style_is_everything(letters):
    """Whatever the content: the picture is the style's donor. It is found out by both shares."""
    tried = trial(letters, honest)
    original = {tuple(style): image for style, image in zip(tried.codes["style"], tried.images, strict=True)}
    found = of_swaps(replace(tried, run=stub(lambda codes: np.stack([original[tuple(s)] for s in codes["style"]]))))
    assert found["content"] < 0.1
    assert found["style"] > 0.9


def test_a_model_whose_content_is_everything(letters):
    tried = trial(letters, honest)
    rows = []  # the donor of each picture is not in its code: contents are numbered instead
    marked = np.arange(150, dtype=np.float32)[:, None] * np.ones((1, 3), dtype=np.float32)

    def render(codes):
        rows.extend(codes["content"][:, 0].astype(int))
        return tried.images[codes["content"][:, 0].astype(int)]

    found = of_swaps(replace(tried, codes=tried.codes.replace(content=marked), run=stub(render)))
    assert len(rows) == int(sum(tried.digits[a] != tried.digits[b] for a, b in zip(*pairs(150), strict=True)))
    assert found["content"] > 0.9
    assert found["slant of content"] == pytest.approx(1)  # each digit has its own usual slant, the same for both
    assert abs(found["slant"]) < 0.3


def stub(render):
    return SimpleNamespace(system=lambda: SimpleNamespace(render=render))


def pairs(count):
    order = np.random.default_rng(0).permutation(count)
    return order, np.roll(order, 1)


def test_buttons_that_show_what_is_on_them(letters):
    found = of_category(trial(letters, honest, kind="simplex"), "content")
    assert found["purity"] == 1
    assert found["shown"] > 0.95
    assert found["slant"] > 0.8


def test_buttons_are_known_by_their_most_frequent_label(letters):
    """Categories in another order are as good: what is on a button is counted, not its number."""
    tried = trial(letters, lambda codes: honest(codes.replace(content=codes["content"][:, [2, 0, 1]])), kind="simplex")
    turned = tried.codes.replace(content=tried.codes["content"][:, [1, 2, 0]])
    found = of_category(replace(tried, codes=turned), "content")
    assert found["purity"] == 1
    assert found["shown"] > 0.95


def test_buttons_that_do_nothing(letters):
    """Each picture is its row again: the digit on a button taken at random is there in a third of them."""
    tried = trial(letters, honest, kind="simplex")
    original = {tuple(style): image for style, image in zip(tried.codes["style"], tried.images, strict=True)}
    found = of_category(
        replace(tried, run=stub(lambda codes: np.stack([original[tuple(s)] for s in codes["style"]]))), "content"
    )
    assert found["purity"] == 1
    assert 0.2 < found["shown"] < 0.5


def test_sliders_move_what_they_move(letters):
    """The first number of the style is the slant and nothing else, the second does nothing."""
    found = moves(trial(letters, honest))
    assert found.shape == (2, len(SHAPE))
    assert found[0, SHAPE.index("slant")] > 2
    assert abs(found[0, SHAPE.index("area")]) < 0.5
    np.testing.assert_array_equal(found[1], 0)


def test_style_is_what_differs_from_the_usual_shape_of_the_digit(letters):
    tried = trial(letters, honest)
    found = tried.style(tried.images[:20], tried.digits[:20])
    for row in range(20):
        same = [image for image, digit in zip(tried.training, tried.known, strict=True) if digit == tried.digits[row]]
        for column, name in enumerate(SHAPE):
            usual = np.mean([measured(image, name) for image in same])
            assert found[row, column] == pytest.approx(measured(tried.images[row], name) - usual)


def measured(image, name):
    return measure_shape(image)[0, SHAPE_MEASURES.index(name)]


def test_correlations_leave_out_what_has_no_shape():
    rng = np.random.default_rng(1)
    one, other = rng.standard_normal((2, 40, len(SHAPE)))
    one[7, 1], one[:, 0] = np.nan, 3.0
    found = correlations(one, other)
    assert found["area"] == 0  # the same in all
    for column, name in list(enumerate(SHAPE))[1:]:
        kept = [row for row in range(40) if column != 1 or row != 7]
        left, right = one[kept, column], other[kept, column]
        left, right = left - left.mean(), right - right.mean()
        assert found[name] == pytest.approx((left @ right) / np.sqrt((left @ left) * (right @ right)))


def test_a_run_is_tried_on_rows_it_was_not_trained_on(tmp_path, capsys):
    settings = {"labels": 40, "nets.hidden": [16], "training.steps": 5, "training.batch_size": 16}
    run = train("structured", "digits", settings=settings, run=tmp_path / "run", progress=False, threads=1)
    tried, rows = Trial.of(run), run.split_rows()
    test, data = run.dataset().observations(rows["test"]), run.dataset().observations(rows["train"])
    assert {image.tobytes() for image in tried.images} == {image.tobytes() for image in test}
    assert {image.tobytes() for image in tried.training} == {image.tobytes() for image in data}
    assert set(promises(tried)) == {"purity", "shown", *SHAPE}

    main([str(run.path)])
    first, *sliders = capsys.readouterr().out.splitlines()
    assert f'"purity": {promises(tried)["purity"]:.3f}'.rstrip("0") in first
    assert len(sliders) == tried.codes["style"].shape[1]


def test_a_sample_is_shared_out(tmp_path):
    settings = {"labels": 40, "nets.hidden": [16], "training.steps": 5, "training.batch_size": 16}
    run = train("structured", "digits", settings=settings, run=tmp_path / "run", progress=False, threads=1)
    write_sample(run.path, run.dataset(), run.split_rows()["test"][:60])
    tried = Trial.of(Run.open(run.path))
    assert (len(tried.images), len(tried.training)) == (30, 30)
    both = {image.tobytes() for image in (*tried.images, *tried.training)}
    assert both == {image.tobytes() for image in Run.open(run.path).dataset().observations(np.arange(60))}


def test_a_run_without_digits_is_refused(tmp_path):
    run = train(
        "vae", "blobs", settings={"latent": 2, "training.steps": 2}, run=tmp_path / "run", progress=False, threads=1
    )
    with pytest.raises(UnweaveError, match="no factor 'digit'"):
        Trial.of(run)
