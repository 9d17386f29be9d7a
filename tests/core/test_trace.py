"""Traces: provenance, given values, masks, sample axes, and errors that name the site."""

import pytest
import torch
from torch.distributions import Categorical

from unweave.base.errors import ShapeError, UnknownNameError, UnweaveError
from unweave.core.distributions import Concrete, normal, standard_normal
from unweave.core.trace import Given, Provenance, Trace


def test_a_program_runs_forward_and_on_the_values_of_another():
    torch.manual_seed(0)
    q = Trace(rows=4)
    z = q.sample("z", normal(torch.zeros(4, 3), torch.ones(4, 3)))
    x = torch.randn(4, 2)
    p = Trace(q.as_given(x=x), rows=4)
    assert torch.equal(p.sample("z", standard_normal(3)), z)
    assert torch.equal(p.sample("x", normal(torch.zeros(4, 2), 1.0)), x)
    assert [site.provenance for site in p.sites()] == [Provenance.REUSED, Provenance.OBSERVED]
    assert q.site("z").provenance is Provenance.SAMPLED
    assert p.names == ("z", "x")
    assert [site.name for site in p.sites(Provenance.OBSERVED)] == ["x"]


def test_observed_stays_observed_when_a_trace_is_passed_on():
    q = Trace({"y": torch.zeros(2, 1)}, rows=2)
    q.sample("y", normal(torch.zeros(2, 1), 1.0))
    p = Trace(q.as_given(), rows=2)
    p.sample("y", standard_normal(1))
    assert p.site("y").provenance is Provenance.OBSERVED


def test_log_prob_sums_sites_per_row():
    q = Trace(rows=5)
    q.sample("a", standard_normal(2))
    q.sample("b", normal(torch.ones(5, 3), 2.0))
    by_hand = torch.zeros(5)
    for row in range(5):
        for d in range(2):
            by_hand[row] += torch.distributions.Normal(0.0, 1.0).log_prob(q["a"][row, d])
        for d in range(3):
            by_hand[row] += torch.distributions.Normal(1.0, 2.0).log_prob(q["b"][row, d])
    torch.testing.assert_close(q.log_prob(), by_hand)
    torch.testing.assert_close(q.log_prob("a") + q.log_prob("b"), q.log_prob())


def test_mask_takes_known_rows_and_draws_the_others():
    torch.manual_seed(1)
    value = torch.tensor([3, -1, 7, -1])  # unknown rows hold rubbish
    known = torch.tensor([True, False, True, False])
    q = Trace({"y": Given(value, known)}, rows=4)
    y = q.sample("y", Categorical(logits=torch.zeros(4, 10)))
    assert y[known].tolist() == [3, 7]
    assert ((y[~known] >= 0) & (y[~known] < 10)).all()
    assert q.site("y").provenance is Provenance.OBSERVED
    assert torch.equal(q.site("y").mask, known)


def test_a_partly_observed_category_has_the_same_log_probability_in_the_other_program():
    """Labelled rows are scored as categories, drawn rows by the Concrete density, in q and in p."""
    torch.manual_seed(2)
    logits = torch.randn(4, 3)
    known = torch.tensor([True, False, True, False])
    q = Trace({"y": Given(torch.eye(3)[[0, 0, 2, 0]], known)}, rows=4)
    y = q.sample("y", Concrete(0.7, logits))
    p = Trace(q.as_given(), rows=4)
    assert torch.equal(p.sample("y", Concrete(0.7, logits)), y)
    torch.testing.assert_close(p.log_prob("y"), q.log_prob("y"))
    log_pi = logits.log_softmax(-1)
    torch.testing.assert_close(q.log_prob("y")[known], torch.stack([log_pi[0, 0], log_pi[2, 2]]))
    torch.testing.assert_close(q.log_prob("y")[~known], Concrete(0.7, logits).log_prob(y)[~known])


def test_nan_in_unknown_rows_reaches_neither_value_nor_gradient():
    mean = torch.zeros(2, 1, requires_grad=True)
    given = Given(torch.tensor([[1.0], [float("nan")]]), torch.tensor([True, False]))
    q = Trace({"z": given}, rows=2)
    z = q.sample("z", normal(mean, 1.0))
    assert torch.isfinite(z).all()
    (z.sum() + q.log_prob("z").sum()).backward()
    assert torch.isfinite(mean.grad).all()


def test_samples_add_one_axis_once_even_when_sites_depend_on_each_other():
    q = Trace(rows=4, samples=6)
    z = q.sample("z", normal(torch.zeros(4, 3), 1.0))
    assert z.shape == (6, 4, 3)
    w = q.sample("w", normal(z[..., :2], 1.0))  # its parameters have the sample axis already
    assert w.shape == (6, 4, 2)
    assert q.sample("v", standard_normal(5)).shape == (6, 4, 5)
    assert q.log_prob().shape == (6, 4)


def test_centred_takes_means_and_probabilities():
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    q = Trace(rows=1, centred=True)
    assert torch.equal(q.sample("z", normal(torch.full((1, 2), 5.0), 3.0)), torch.full((1, 2), 5.0))
    torch.testing.assert_close(q.sample("c", Concrete(0.5, logits)), logits.softmax(-1))


def test_the_sampled_path_carries_gradients():
    mean = torch.zeros(3, 2, requires_grad=True)
    q = Trace(rows=3)
    q.sample("z", normal(mean, 1.0)).sum().backward()
    assert torch.equal(mean.grad, torch.ones(3, 2))


def test_errors_name_the_site_and_the_remedy():
    q = Trace(rows=2)
    q.sample("z", standard_normal(2))
    with pytest.raises(UnweaveError, match="'z' is sampled twice"):
        q.sample("z", standard_normal(2))
    with pytest.raises(ShapeError, match=r"site 'x' was given a value of shape \(2, 3\).*expects 2 x 4"):
        Trace({"x": torch.zeros(2, 3)}, rows=2).sample("x", normal(torch.zeros(2, 4), 1.0))
    with pytest.raises(ShapeError, match="one boolean per row"):
        Trace({"x": Given(torch.zeros(2, 4), torch.zeros(2))}, rows=2).sample("x", normal(torch.zeros(2, 4), 1.0))
    with pytest.raises(UnknownNameError, match="unknown site 'zz': did you mean 'z'"):
        q.site("zz")
    with pytest.raises(UnweaveError, match="empty trace"):
        Trace().log_prob()


def test_what_was_given_and_never_used_is_known():
    q = Trace({"stlye": torch.zeros(1, 2)}, rows=1)
    q.sample("style", standard_normal(2))
    assert q.unused == ("stlye",)


def test_what_a_site_will_be_is_known_only_where_no_row_is_drawn():
    whole = torch.arange(12.0).reshape(2, 3, 2)
    mask = torch.tensor([True, False])
    p = Trace({"z": whole, "y[0]": torch.ones(2, 1), "x": Given(torch.zeros(2, 1), mask)}, rows=2)
    assert torch.equal(p.known("z[1]"), whole[:, 1])
    assert torch.equal(p.known("z", event_dims=2), whole)
    assert torch.equal(p.known("y[0]"), torch.ones(2, 1))
    assert p.known("y[1]") is None  # not given
    assert p.known("x") is None  # given in part
    assert p.names == ()  # asking samples nothing
    assert torch.equal(p.sample("z[1]", standard_normal(2)), p.known("z[1]"))
