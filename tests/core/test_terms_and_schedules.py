"""Terms sum to the loss with weights applied once; schedules are what their formulas say."""

import math

import pytest
import torch

from unweave.base.errors import ConfigError, ShapeError, TrainingError, UnknownNameError
from unweave.base.schedule import Schedule, at_step, parse_schedule
from unweave.core.terms import Terms


def test_total_is_the_weighted_sum_of_means():
    a, b = torch.tensor([1.0, 3.0]), torch.tensor(5.0)
    terms = Terms({"a": a, "b": b}, {"b": 0.5})
    assert terms.total().item() == (1 + 3) / 2 + 0.5 * 5
    assert terms.batch_statistics == ("b",)
    assert {name: value.item() for name, value in terms.logged().items()} == {"a": 2.0, "b": 5.0, "total": 4.5}


def test_weights_follow_schedules():
    terms = Terms({"a": torch.ones(3)}, {"a": Schedule(kind="linear", start=0, end=4, steps=100)})
    assert [terms.total(step).item() for step in (0, 50, 100, 1000)] == [0.0, 2.0, 4.0, 4.0]


def test_samples_and_batch_are_averaged():
    assert Terms({"a": torch.tensor([[1.0, 2.0], [3.0, 6.0]])}).total().item() == 3.0


def test_diagnostics_are_logged_and_not_summed():
    terms = Terms({"a": torch.ones(2)}, diagnostics={"kl": torch.full((2,), 7.0)})
    assert terms.total().item() == 1.0
    assert terms.logged()["kl"].item() == 7.0


def test_a_term_switched_off_cannot_poison_the_sum():
    terms = Terms({"a": torch.ones(2), "b": torch.full((2,), float("nan"))}, {"b": 0.0})
    assert terms.total().item() == 1.0
    terms.require_finite(3, "model")


def test_a_nan_term_is_named():
    terms = Terms({"a": torch.ones(2), "b": torch.full((2,), float("nan"))})
    with pytest.raises(TrainingError, match="term 'b' of player 'model' became nan at step 3"):
        terms.require_finite(3, "model")


def test_wrong_shapes_and_names_are_refused():
    with pytest.raises(ShapeError, match="term 'a' has shape"):
        Terms({"a": torch.zeros(2, 3, 4)})
    with pytest.raises(UnknownNameError, match="unknown term 'kll': did you mean 'kl'"):
        Terms({"kl": torch.zeros(2)}, {"kll": 1.0})


def test_terms_of_different_lengths_are_refused():
    with pytest.raises(ShapeError, match="terms have different numbers of examples"):
        Terms({"reconstruction": torch.zeros(6), "content_kl": torch.zeros(2)})


@pytest.mark.parametrize("step", [0, 10, 25, 60, 110, 500])
def test_schedules_against_their_formulas(step):
    t = min(max((step - 10) / 100, 0), 1)
    common = {"start": 1.0, "end": 5.0, "steps": 100, "delay": 10}
    assert Schedule(kind="linear", **common)(step) == pytest.approx(1 + 4 * t)
    assert Schedule(kind="cosine", **common)(step) == pytest.approx(1 + 4 * (1 - math.cos(math.pi * t)) / 2)
    assert Schedule(kind="exponential", **common)(step) == pytest.approx(math.exp(t * math.log(5)))
    assert Schedule(kind="jump", **common)(step) == (5 if step >= 110 else 1)


def test_schedules_as_text():
    schedule = parse_schedule("linear(0, 4, 1000, 50)")
    assert schedule == Schedule(kind="linear", start=0, end=4, steps=1000, delay=50)
    assert parse_schedule(str(schedule)) == schedule
    assert at_step(2, 7) == 2.0


@pytest.mark.parametrize(
    "text", ["linear(0, 4)", "linear(a, 4, 10)", "sometimes(0, 1, 10)", "exponential(0, 1, 10)", "linear"]
)
def test_bad_schedules_are_refused(text):
    with pytest.raises(ConfigError):
        parse_schedule(text)
