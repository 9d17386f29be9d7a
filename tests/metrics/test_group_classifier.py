"""The group classifier on codes whose classes can be told by a known amount."""

import json
import math

import numpy as np
import pytest

from unweave.base.errors import MetricError
from unweave.metrics import _group_classifier, classify_groups


def noisy(rows=1200, classes=4, noise=1.0, seed=0):
    """Codes around class centres on a circle, with noise of known spread, and their classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    angle = 2 * np.pi * labels / classes
    means = np.stack([np.cos(angle), np.sin(angle)], 1) + noise * rng.normal(size=(rows, 2))
    return means, np.full(means.shape, noise), labels


def best(k, noise, classes=4, draws=200_000):
    """Accuracy and conditional entropy of the exact posterior over classes given the mean of k codes."""
    rng = np.random.default_rng(1)
    angle = 2 * np.pi * np.arange(classes) / classes
    centres = np.stack([np.cos(angle), np.sin(angle)], 1)
    truth = rng.integers(classes, size=draws)
    codes = centres[truth] + noise / math.sqrt(k) * rng.normal(size=(draws, 2))
    log_p = -((codes[:, None] - centres) ** 2).sum(-1) * k / (2 * noise**2)
    log_p -= np.logaddexp.reduce(log_p, axis=1, keepdims=True)
    return (log_p.argmax(1) == truth).mean(), -log_p[np.arange(draws), truth].mean() / math.log(2)


def test_trained_and_tested_with_k_members_it_nears_the_best_possible():
    means, spreads, labels = noisy()
    for k in (1, 4):
        result = classify_groups(means, spreads, labels, members=(k,), most=k)
        accuracy, entropy = best(k, 1.0)
        assert result.accuracy[0] == pytest.approx(accuracy, abs=0.05)
        assert result.entropy[0] > entropy - 0.1  # a bound from above, up to the draw of the test rows
        assert result.entropy[0] < entropy + 0.25


def test_more_members_help_and_style_does_not():
    means, spreads, labels = noisy()
    content = classify_groups(means, spreads, labels)
    assert content.members == tuple(range(1, 11))
    assert content.accuracy[0] < 0.7 < 0.9 < content.accuracy[-1]
    assert content.entropy[-1] < content.entropy[0] - 0.5
    assert (content.groups == 600).all()
    style = np.random.default_rng(3).normal(size=(1200, 3))
    flat = classify_groups(style, None, labels, accumulate=False)
    assert len(set(flat.accuracy.tolist())) == 1
    assert flat.accuracy[0] < 0.33
    assert flat.entropy[0] > 1.9


def test_members_that_are_sure_count_for_more():
    """Half of the codes are noise and say so: only weights by precision can leave them out."""
    means, spreads, labels = noisy(noise=0.3)
    wild = np.random.default_rng(5).random(len(means)) < 0.5
    means[wild] = 3 * np.random.default_rng(6).normal(size=(wild.sum(), 2))
    spreads[wild] = 30.0
    weighted = classify_groups(means, spreads, labels, members=(5,), most=5)
    plain = classify_groups(means, None, labels, members=(5,), most=5)
    assert weighted.accuracy[0] > 0.9
    assert plain.accuracy[0] < weighted.accuracy[0] - 0.2


def test_draws_count_the_noise_that_means_do_not():
    """Means that differ by class far less than the posterior is wide: readable from means, lost in draws."""
    rng = np.random.default_rng(0)
    labels = np.arange(800) % 2
    means = 0.3 * (2 * labels[:, None] - 1) + 1e-3 * rng.normal(size=(800, 1))
    wide = np.full(means.shape, 5.0)
    read = {name: classify_groups(means, wide, labels, accumulate=False, features=name) for name in ("mean", "draw")}
    assert read["mean"].accuracy[0] > 0.95
    assert read["draw"].accuracy[0] < 0.62
    assert read["draw"].entropy[0] > 0.9
    sure = classify_groups(means, np.full(means.shape, 0.01), labels, accumulate=False, features="draw")
    assert sure.accuracy[0] > 0.95
    plain = classify_groups(means, None, labels, accumulate=False, features="draw")  # no spreads: nothing to draw
    assert plain.accuracy[0] > 0.95


def test_same_seed_same_result_and_no_global_generator():
    import torch

    means, spreads, labels = noisy(400)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    one = classify_groups(means, spreads, labels, members=(1, 3))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(7)
    two = classify_groups(means, spreads, labels, members=(1, 3))
    assert one.to_dict() == two.to_dict() == json.loads(json.dumps(one.to_dict()))
    other = classify_groups(means, spreads, labels, members=(1, 3), seed=1)
    assert one.to_dict() != other.to_dict()


def test_training_and_test_rows_are_disjoint():
    """Codes that hold nothing but their own row number cannot be learned by heart."""
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(300, 50))
    result = classify_groups(codes, None, rng.integers(3, size=300), accumulate=False)
    assert result.accuracy[0] < 0.5
    training, testing = _group_classifier._divide(np.arange(300) % 3, 3, 0.4, rng)
    for number in range(3):
        assert set(training[number]).isdisjoint(testing[number])
        assert sorted([*training[number], *testing[number]]) == list(range(number, 300, 3))
        assert len(testing[number]) == 40


def test_groups_are_of_one_class_without_repeats():
    rng = np.random.default_rng(0)
    parts = [np.arange(0, 23), np.arange(23, 40)]
    groups = _group_classifier._training_groups(parts, 5, rng)
    assert groups.shape[1] == 5
    for group in groups[:: len(groups) // 50]:
        assert len(set(group)) == 5
        assert len({row < 23 for row in group}) == 1
    assert (groups[:, 0] < 23).mean() == pytest.approx(4 / 7)  # 4 and 3 groups each time
    for k in (1, 4, 17):
        tested = _group_classifier._test_groups(parts[1], k, rng)
        assert tested.shape == (17, k)
        assert sorted(tested[:, 0]) == list(parts[1])
        assert all(len(set(group)) == k for group in tested)


def test_names_of_classes_and_codes_objects():
    from unweave.core.block import Block
    from unweave.core.codes import Codes

    means, spreads, labels = noisy(200)
    names = np.array(["a", "b", "c", "d"])[labels]
    codes = Codes((Block("content", (2,)),), {"content": means}, {"content": spreads})
    assert (
        classify_groups(codes, spreads, names, members=(2,)).to_dict()
        == classify_groups(means, spreads, labels, members=(2,)).to_dict()
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": np.zeros(39)}, r"expected \(40,\)"),
        ({"classes": np.zeros(40)}, "all rows have one class"),
        ({"classes": np.where(np.arange(40) == 3, np.nan, 1.0)}, "the class of row 3 is missing"),
        ({"spreads": np.ones((40, 3))}, "spreads have shape"),
        ({"spreads": np.zeros((40, 2))}, "above 0"),
        ({"members": (0, 1)}, "from 1 to most=10"),
        ({"members": (11,)}, "from 1 to most=10"),
        ({"members": ()}, "members are none"),
        ({"features": "sample"}, "choose 'draw' or 'mean'"),
        ({"test_share": 1.0}, "between 0 and 1"),
        ({"most": 30}, "class 0 has 10 training rows and 30 are to be accumulated: set most to 10 or less"),
        ({"test_share": 0.2}, "class 0 has 4 test rows and 10 are to be accumulated: set members to 4 or less"),
    ],
)
def test_bad_inputs_are_refused_in_one_line(change, words):
    means, spreads, _ = noisy(40)
    given = {"means": means, "spreads": spreads, "classes": np.arange(40) % 2, **change}
    with pytest.raises(MetricError, match=words) as caught:
        classify_groups(**given)
    assert "\n" not in str(caught.value)


def test_page_runs(root, run_page):
    assert run_page(root / "docs" / "metrics" / "group_classifier.md") == 1
