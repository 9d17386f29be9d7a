"""Recognition on pictures whose class is known, lost, exchanged or hidden in the place."""

import json

import numpy as np
import pytest

from unweave.base.errors import MetricError
from unweave.metrics import _recognition, recognition


@pytest.fixture(scope="module")
def sprites():
    """Images (n, 1, 32, 32) of dSprites at all sizes and places, and their shapes."""
    from unweave.data.dsprites import DSprites

    data = DSprites(resolution=32, steps=(6, 10, 32, 32), cached=False).load()
    rows = np.random.default_rng(0).permutation(len(data))[:3600]
    return data.observations(rows), data.factors.column("shape")[rows].astype(int)


def discs(images):
    """Discs with the place and the area of what is white in each image."""
    images = images[:, 0]
    height, width = np.mgrid[: images.shape[1], : images.shape[2]]
    area = images.sum(axis=(1, 2))
    y, x = ((images * axis).sum(axis=(1, 2)) / area for axis in (height, width))
    far = np.hypot(height - y[:, None, None], width - x[:, None, None])
    return np.clip(np.sqrt(area / np.pi)[:, None, None] + 0.5 - far, 0, 1)[:, None].astype(np.float32)


def judged(pictures, sprites, **settings):
    images, shapes = sprites
    return recognition(
        pictures,
        shapes[3000:],
        originals=images[3000:],
        training=images[:3000],
        training_labels=shapes[:3000],
        **settings,
    )


def test_originals_are_recognised_and_what_has_lost_its_shape_is_not(sprites):
    images = sprites[0]
    perfect = judged(images[3000:], sprites)
    assert perfect.value == perfect.parts["originals"] > 0.98
    assert perfect.interval[0] <= perfect.value <= perfect.interval[1] <= 1
    round_ones = judged(discs(images[3000:]), sprites)
    assert round_ones.value < 0.5
    assert round_ones.parts["originals"] == perfect.parts["originals"]
    assert max(round_ones.parts["per_class"].values()) > 0.8  # one class is said of nearly all of them
    for score in (perfect, round_ones):
        assert score.parts["exchanged"] == pytest.approx(1 / 3, abs=0.08)
        assert score.parts["mean_picture"] == pytest.approx(1 / 3, abs=0.06)
    assert json.loads(json.dumps(perfect.to_dict()))["parts"]["confusion"]


def test_a_half_of_the_pictures_lost(sprites):
    """Known by construction: half recognised as the originals are, half as the mean picture is."""
    images, shapes = sprites
    whole = judged(images[3000:], sprites)
    half = images[3000:].copy()
    half[::2] = images[:3000].mean(axis=0)
    score = judged(half, sprites)
    named = np.array(score.parts["confusion"]).sum(axis=0).argmax()
    expected = np.where(np.arange(600) % 2 == 0, shapes[3000:] == named, True).mean()
    assert score.value == pytest.approx(expected, abs=0.02)
    assert score.interval[1] < whole.value
    assert score.interval[1] - score.interval[0] == pytest.approx(4 * np.sqrt(0.25 * 0.9 / 600), abs=0.03)


def test_the_parts_agree_with_each_other(sprites):
    images, shapes = sprites
    score = judged(discs(images[3000:]), sprites)
    confusion = np.array(score.parts["confusion"])
    assert confusion.sum() == 600
    assert score.value == pytest.approx(np.trace(confusion) / 600)
    assert (confusion.sum(axis=1) == np.bincount(shapes[3000:], minlength=3)).all()
    assert score.parts["per_class"]["1"] == pytest.approx(confusion[1, 1] / confusion[1].sum())
    assert score.settings == {"classes": 3, "rows": 600, "training": 3000, "cut": True, "seed": 0}


def test_the_same_seed_is_the_same_score(sprites):
    pictures = discs(sprites[0][3000:])
    assert judged(pictures, sprites, rng=3).to_dict() == judged(pictures, sprites, rng=3).to_dict()
    assert judged(pictures, sprites, rng=4).value == judged(pictures, sprites).value


def test_labels_as_a_factor_table_has_them(sprites):
    """Whole numbers kept as floats are named as whole numbers."""
    images, shapes = sprites
    known = {"originals": images[500:550], "training": images[:500], "training_labels": shapes[:500].astype(float)}
    score = recognition(images[500:550], shapes[500:550].astype(float), **known)
    assert set(score.parts["per_class"]) == {"0", "1", "2"}


def test_a_view_is_the_mean_over_each_cell_of_the_cut():
    """Against a loop over finer and finer points of the image."""
    rng = np.random.default_rng(0)
    image = np.zeros((2, 20, 26), np.float32)
    image[:, 5:12, 9:20] = 0.6 + 0.4 * rng.random((2, 7, 11))
    image += 0.3  # the ground
    found = _recognition.view(image[None]).reshape(2, 16, 16)
    size, fine = 11 * 1.2, 60
    for i, j in ((0, 0), (4, 8), (8, 3), (15, 15)):
        points = (np.arange(fine) + 0.5) / fine
        y = np.floor((5 + 12 - size) / 2 + size * (i + points) / 16).astype(int)
        x = np.floor((9 + 20 - size) / 2 + size * (j + points) / 16).astype(int)
        assert found[:, i, j] == pytest.approx((image[:, y][:, :, x] - 0.3).mean(axis=(1, 2)), abs=0.03)


def test_views_do_not_depend_on_place_size_and_ground():
    image = np.zeros((4, 1, 40, 40), np.float32)
    thing = np.zeros((8, 8), np.float32)
    thing[0], thing[:, 0], thing[5, 3] = 1, 1, 1
    image[0, 0, 3:11, 3:11] = thing
    image[1, 0, 30:38, 20:28] = thing
    image[2, 0, 3:11, 3:11] = thing
    image[2] = 0.2 + image[2]
    image[3, 0, 32:40, 32:40] = thing  # at the edge: nothing lies beyond it
    views = _recognition.view(image)
    for other in views[1:]:
        assert other == pytest.approx(views[0], abs=1e-6)
    large = np.kron(image[:1], np.ones((1, 1, 2, 2), np.float32))
    assert _recognition.view(large)[0] == pytest.approx(views[0], abs=1e-6)
    plain = _recognition.view(np.full((1, 3, 9, 7), 0.4, np.float32))  # no thing: all of it, which is its own ground
    assert plain == pytest.approx(np.zeros((1, 3 * 256)))


def test_a_class_that_is_a_place_needs_whole_pictures():
    rng = np.random.default_rng(0)
    images, where = np.zeros((200, 1, 24, 24), np.float32), rng.integers(2, size=200)
    for image, side in zip(images[:, 0], where, strict=True):
        row, column = rng.integers(2, 20), rng.integers(1, 8) + 12 * side
        image[row : row + 3, column : column + 3] = 1
    known = {"originals": images[100:], "training": images[:100], "training_labels": where[:100]}
    assert recognition(images[100:], where[100:], **known).value < 0.75
    assert recognition(images[100:], where[100:], cut=False, **known).value > 0.95


def test_classes_may_have_names_and_images_colours():
    rng = np.random.default_rng(0)
    colours = {"red": (1, 0, 0), "green": (0, 1, 0)}
    names = rng.choice(list(colours), 60)
    images = np.stack([np.array(colours[name], np.float32) for name in names])[:, :, None, None] * np.ones((1, 1, 9, 9))
    images[:, :, 0], images[:, :, -1], images[:, :, :, 0], images[:, :, :, -1] = 0, 0, 0, 0
    score = recognition(
        images[40:, [1, 0, 2]],  # red for green and green for red
        names[40:],
        originals=images[40:],
        training=images[:40],
        training_labels=names[:40],
    )
    assert score.value == 0
    assert score.parts["originals"] == 1
    assert set(score.parts["per_class"]) == {"red", "green"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"training": np.zeros((5, 4, 4, 4, 4))}, "expected images"),
        ({"pictures": np.zeros((3, 1, 8, 8))}, "give each its original"),
        ({"originals": np.zeros((4, 1, 9, 8))}, "expected one shape"),
        ({"pictures": np.full((4, 1, 8, 8), np.nan)}, "NaN or infinite"),
        ({"labels": np.zeros(3)}, r"labels have shape \(3,\)"),
        ({"labels": np.array([0, 1, 2, 1])}, "no training image has the class 2"),
        ({"training_labels": np.zeros(6)}, "one class"),
        ({"training_labels": np.array([0, 1, np.nan, 0, 1, 1])}, "row 2 is missing"),
    ],
)
def test_bad_input_is_refused_in_one_line(change, message):
    given = {
        "pictures": np.zeros((4, 1, 8, 8)),
        "labels": np.array([0, 1, 0, 1]),
        "originals": np.zeros((4, 8, 8)),
        "training": np.zeros((6, 8, 8)),
        "training_labels": np.array([0, 1, 0, 0, 1, 1]),
    } | change
    with pytest.raises(MetricError, match=message) as caught:
        recognition(given.pop("pictures"), given.pop("labels"), **given)
    assert "\n" not in str(caught.value)


def test_it_needs_no_torch_and_the_page_runs(root, run_page):
    import subprocess
    import sys

    code = (
        "import sys, numpy as np; from unweave.metrics import recognition; x = np.eye(8)[:, None].repeat(8, 1)\n"
        "recognition(x, [0, 1] * 4, originals=x, training=x, training_labels=[0, 1] * 4)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert run_page(root / "docs" / "metrics" / "recognition.md") == 1
