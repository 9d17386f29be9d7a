"""The model of a label and a style: M2's objective written out, its classifier, its labels, and its operations."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from unweave.base.errors import ConfigError, DataError, UnknownNameError
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.trace import Given
from unweave.runs import resume, train
from unweave.systems.structured import Perturb, Structured, StructuredConfig

K, D = 3, 2
SPEC = DataSpec((5,), "real", 40, labels={"kind": K, "angle": 0})
SMALL = {"nets.hidden": [7], "classifier.hidden": [6], "nets.activation": "tanh", "latent": D}


def small(spec=SPEC, **settings):
    torch.manual_seed(0)
    return Structured(StructuredConfig().override({**SMALL, **settings}), spec).double()


def labelled_batch(kinds=(0, None, 2, None, 1)):
    x = torch.randn(len(kinds), 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    known = torch.tensor([kind is not None for kind in kinds])
    values = torch.tensor([0.0 if kind is None else float(kind) for kind in kinds])
    return Batch(len(kinds), x, labels={"kind": Given(values, known)})


def log_normal(value, mean, std):
    return (-0.5 * math.log(2 * math.pi) - std.log() - 0.5 * ((value - mean) / std) ** 2).sum(-1)


def cost_of(system, x, y, noise):
    """-[log p(x|y,z) + log p(y) + log p(z) - log q(z|x,y)] of M2 (Kingma et al. 2014, eq. 6), layer by layer."""
    head = system.style_head
    hidden = torch.tanh(head.of_features(system.encoder(x)) + head.of_class(y))
    mean, log_variance = head.head.linear(hidden).chunk(2, -1)
    std = torch.exp(log_variance / 2)
    z = mean + std * noise
    picture = system.decoder(torch.cat([y.expand(*z.shape[:-1], K), z], -1))
    one = torch.ones((), dtype=x.dtype)
    log_p = log_normal(x, picture, one) - math.log(K) + log_normal(z, torch.zeros_like(z), one)
    return log_normal(z, mean, std) - log_p


def test_objective_is_that_of_m2():
    """Enumerated, one draw: sum_y q(y|x) (L(x, y) + log q(y|x)) without, L(x, y) - alpha log q(y|x) with a label."""
    system, batch = small(discrete="enumerate", alpha=5), labelled_batch()
    torch.manual_seed(1)
    terms = system.objective("model", batch, 0)
    torch.manual_seed(1)
    draw = lambda *shape: torch.normal(torch.zeros(shape).double(), torch.ones(shape).double())  # noqa: E731
    free_noise, given_noise = draw(K, 2, D), draw(3, D)
    log_q = system.class_head(system.classifier(batch.x)).log_softmax(-1)
    free, given = [1, 3], [0, 2, 4]
    total = torch.zeros((), dtype=torch.float64)
    for k in range(K):
        y = one_hot(torch.tensor([k, k]), K).double()
        total = (
            total + (log_q[free, k].exp() * (cost_of(system, batch.x[free], y, free_noise[k]) + log_q[free, k])).sum()
        )
    y = torch.tensor([0, 2, 1])
    total = total + cost_of(system, batch.x[given], one_hot(y, K).double(), given_noise).sum()
    total = total - 5 * log_q[given, y].sum()
    torch.testing.assert_close(terms.total(), total / 5, rtol=1e-9, atol=1e-9)


def test_equation_8_is_m2_for_any_number_of_draws():
    """The weights are the same for all draws, so they drop out: the mean over draws of M2's cost."""
    system, batch = small(samples=4), labelled_batch((1, 0, 2))
    torch.manual_seed(1)
    terms = system.objective("model", batch, 0)
    torch.manual_seed(1)
    noise = torch.normal(torch.zeros(4, 3, D).double(), torch.ones(4, 3, D).double())
    y = one_hot(torch.tensor([1, 0, 2]), K).double()
    torch.testing.assert_close(terms["labelled_bound"], cost_of(system, batch.x, y, noise).mean(0))
    log_q = system.class_head(system.classifier(batch.x)).log_softmax(-1)
    torch.testing.assert_close(terms["supervision"], -log_q[range(3), [1, 0, 2]])


@pytest.mark.parametrize("discrete", ["concrete", "enumerate"])
@pytest.mark.parametrize("bound", ["self_normalised", "importance_weighted"])
@pytest.mark.parametrize("samples", [1, 3])
def test_every_parameter_gets_a_finite_gradient(discrete, bound, samples):
    system = small(discrete=discrete, bound=bound, samples=samples)
    system.objective("model", labelled_batch(), 0).total().backward()
    for name, parameter in system.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_the_label_alone_trains_the_classifier_alone():
    system = small()
    system.objective("model", labelled_batch((0, 1, 2)), 0)["supervision"].mean().backward()
    reached = {name.split(".")[0] for name, p in system.named_parameters() if p.grad is not None and p.grad.abs().sum()}
    assert reached == {"classifier", "class_head"}


def test_importance_weighting_raises_the_bound():
    batch = labelled_batch()
    costs = {}
    for bound in ("self_normalised", "importance_weighted"):
        torch.manual_seed(2)
        costs[bound] = small(bound=bound, samples=20, discrete="enumerate").objective("model", batch, 0)
    for term in ("unlabelled_bound", "labelled_bound"):
        assert costs["importance_weighted"].mean(term) < costs["self_normalised"].mean(term)


def test_learns_classes_from_a_few_labels(tmp_path):
    """Digits of scikit-learn with 100 labels of 1617."""
    settings = {"labels": 100, "rho": 0.2, "alpha": 20, "discrete": "enumerate", "training.steps": 250}
    run = train("structured", "digits", settings=settings, run=tmp_path / "run", progress=False, threads=1)
    rows = run.split_rows()["test"]
    codes, truth = run.encode_rows(rows), run.dataset().factors.column("digit")[rows]
    assert np.mean(codes["digit"].argmax(1) == truth) > 0.8
    shown = run.operate("traverse", rows=rows[:3], dims="digit")  # analogies: the label changes, the style stays
    assert shown.images.shape[:2] == (3, 10)
    again = codes.take(np.arange(3)).replace(digit=np.eye(10)[[7, 7, 7]])
    np.testing.assert_allclose(shown.images[:, 7], run.system().render(again), atol=1e-5)
    assert run.operate("sweep", rows=rows[:1], steps=3).images.shape[:2] == (3, 3)


def test_draws_of_an_enumerated_model_have_one_class():
    digits = small(discrete="enumerate").float().draw(20, seed=0)["kind"]
    assert set(np.unique(digits)) == {0.0, 1.0}
    assert (digits.sum(1) == 1).all()


def test_temperature_follows_its_schedule():
    system = small(temperature="linear(1, 0.5, 10)")
    system.step = 10
    assert system.temperature == 0.5
    assert system.category(torch.zeros(2, K)).temperature == 0.5


# What the classifier sees in training --------------------------------------------------------------------------------


def test_shifted_images_are_the_image_moved():
    image = torch.arange(1.0, 13.0).reshape(1, 1, 3, 4)
    torch.manual_seed(0)
    moved = Perturb(0.0, 1)(image.repeat(200, 1, 1, 1))
    wide = nn.functional.pad(image[0, 0], [1] * 4)
    windows = {(i, j): wide[i : i + 3, j : j + 4] for i in range(3) for j in range(3)}
    found = [next(place for place, window in windows.items() if torch.equal(window, one[0])) for one in moved]
    assert set(found) == set(windows)


def test_shifted_colours_move_together():
    image = torch.rand(6, 3, 8, 8)
    moved = Perturb(0.0, 2)(image.mean(1, keepdim=True).repeat(1, 3, 1, 1))
    torch.testing.assert_close(moved[:, 0], moved[:, 2])


def test_noise_shift_and_dropout_are_for_training_only():
    spec = DataSpec((1, 8, 8), "unit", 40, labels={"kind": K})
    system = small(spec, noise=0.3, shift=1, dropout=0.5).float()
    batch = Batch.of(torch.rand(4, 1, 8, 8))
    system.train()
    first, second = (system.posterior(batch, centred=True).site("kind").distribution.logits for _ in range(2))
    assert not torch.equal(first, second)
    np.testing.assert_array_equal(system.encode(batch)["kind"], system.encode(batch)["kind"])


def test_the_classifier_has_the_layers_its_settings_say():
    spec = DataSpec((1, 16, 16), "unit", 40, labels={"kind": K})
    config = {"classifier.kind": "convolutional", "classifier.channels": [4, 5], "classifier.norm": "layer"}
    system = small(spec, **config, dropout=0.2)
    kinds = [type(layer).__name__ for layer in (*system.classifier.convolutions, *system.classifier.dense)]
    assert kinds == ["Down", "GroupNorm", "LeakyReLU"] * 2 + ["Linear", "LayerNorm", "LeakyReLU"]
    assert [type(layer).__name__ for layer in system.class_head] == ["Dropout", "Linear"]


def test_trains_resumes_and_encodes_as_one_run(tmp_path):
    settings = {"labels": 30, "classifier.norm": "layer", "dropout": 0.3, "training.steps": 6}
    options = {"progress": False, "threads": 1, "checkpoint_every": 3}
    whole = train("structured", "digits", settings=settings, run=tmp_path / "whole", **options)
    half = {**settings, "training.steps": 3}
    train("structured", "digits", settings=half, run=tmp_path / "part", **options)
    rest = resume(tmp_path / "part", steps=6, progress=False)
    np.testing.assert_array_equal(whole.encode_rows([0, 1, 2])["digit"], rest.encode_rows([0, 1, 2])["digit"])


# Which factor is the label -------------------------------------------------------------------------------------------


def test_blocks_are_named_after_the_label():
    assert [(block.name, block.shape, block.kind) for block in small().blocks] == [
        ("kind", (K,), "simplex"),
        ("style", (D,), "real"),
    ]


def test_labels_that_cannot_be_are_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'kind'"):
        small(label="kinds")
    with pytest.raises(DataError, match="'angle' is continuous"):
        small(label="angle")
    with pytest.raises(DataError, match="no discrete factor"):
        small(DataSpec((5,), "real", 40))
    with pytest.raises(DataError, match=r"several factors could be the label, a, b: choose one with label=NAME"):
        small(DataSpec((5,), "real", 40, labels={"a": 2, "b": 3}))
    with pytest.raises(DataError, match="'style' cannot name"):
        small(DataSpec((5,), "real", 40, labels={"style": 2}))
    with pytest.raises(DataError, match="one value only"):
        small(DataSpec((5,), "real", 40, labels={"a": 1}))
    with pytest.raises(ConfigError, match="'shift' moves images"):
        small(shift=1)


def test_own_networks_are_used():
    encoder, decoder, classifier = nn.Linear(5, 4), nn.Linear(K + 10, 5), nn.Linear(5, 8)
    system = Structured(StructuredConfig(), SPEC, encoder=encoder, decoder=decoder, classifier=classifier)
    assert system.encode(Batch.of(torch.zeros(2, 5)))["style"].shape == (2, 10)
    assert system.classifier.module is classifier
