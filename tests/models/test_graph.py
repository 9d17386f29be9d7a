"""Graphs of one's own: which rows and labels they train on, what their objective is made of, and bad inputs."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical

from unweave.base.card import Card
from unweave.base.errors import ConfigError, DataError, ShapeError, UnknownNameError, UnweaveError
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import normal, standard_normal
from unweave.core.factors import Factors
from unweave.core.order import Table
from unweave.core.system import SYSTEMS
from unweave.core.trace import Given
from unweave.data import from_arrays
from unweave.models.graph import Graph, GraphConfig, _balanced, joined
from unweave.objectives.semi_supervised import importance_weighted_bound, self_normalised_bound, whole
from unweave.runs import resume, train


class Toy(Graph, Encodes, Decodes, Samples):
    """q(z|x) q(kind|x,z) q(light|x): a style, a class and a real number; p(kind) p(light) p(z) p(x|...)."""

    card = Card("a toy")
    config_class = GraphConfig

    def __init__(self, config, spec):
        super().__init__(config, spec)
        self.to_z, self.to_kind, self.to_light = nn.Linear(4, 2), nn.Linear(5, 3), nn.Linear(4, 2)
        self.to_x = nn.Linear(5, 4)

    @property
    def blocks(self):
        return (Block("z", (1,)), Block("kind", (3,), kind="simplex"), Block("light", (1,)))

    def infer(self, q, batch):
        x = batch.observations
        mean, raw = self.to_z(x).chunk(2, -1)
        z = q.sample("z", normal(mean, raw.exp()))
        q.sample("kind", self.category(self.to_kind(joined(x, z))))
        mean, raw = self.to_light(x).chunk(2, -1)
        q.sample("light", normal(mean, raw.exp()))

    def generate(self, p, context):
        z = p.sample("z", standard_normal(1, like=self.labelled_share))
        kind = p.sample("kind", self.uniform_category(3))
        light = p.sample("light", standard_normal(1, like=self.labelled_share))
        p.sample("x", normal(self.to_x(joined(z, kind, light)), 1.0))


@pytest.fixture(autouse=True)
def own_systems_stay_here(monkeypatch):
    """Training registers a class; other tests go over all systems."""
    monkeypatch.setattr(SYSTEMS, "_extra", {})


SPEC = DataSpec((4,), "real", 40, labels={"kind": 3, "light": 0, "other": 2})


def toy(cls=Toy, spec=SPEC, **settings):
    torch.manual_seed(0)
    return cls(GraphConfig().override({"training.batch_size": 8, **settings}), spec)


def batch(rows=6, kinds=None, lights=None, seed=0):
    """Labels are given where they are not None."""
    generator = torch.Generator().manual_seed(seed)
    labels = {}
    for name, values in (("kind", kinds), ("light", lights)):
        if values is not None:
            known = torch.tensor([value is not None for value in values])
            filled = torch.tensor([math.nan if value is None else float(value) for value in values])
            labels[name] = Given(filled, known)
    return Batch(rows=rows, x=torch.randn(rows, 4, generator=generator), labels=labels)


def table(n=40, seed=0, known=1.0, kinds=3):
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.integers(0, kinds, n), rng.normal(size=n), rng.integers(0, 2, n)]).astype(float)
    values[rng.random(n) >= known] = np.nan
    return Table(
        100 + np.arange(n), Factors(("kind", "light", "other"), values, ("discrete", "continuous", "discrete"))
    )


# A price on real variables ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discrete", ["concrete", "enumerate"])
@pytest.mark.parametrize("samples", [1, 3])
def test_beta_adds_the_kl_of_real_variables_without_labels(discrete, samples):
    mixed = batch(5, kinds=[0, None, 2, None, 1], lights=[None, None, 0.5, -1.0, 2.0])
    plain, dear = (toy(beta=beta, discrete=discrete, samples=samples) for beta in (1.0, "linear(3, 5, 10)"))
    terms = []
    for system in (plain, dear):
        torch.manual_seed(2)
        terms.append(system.objective("model", mixed, 5))
    assert "real_kl" not in terms[0]
    for name in terms[0]:
        torch.testing.assert_close(terms[1][name], terms[0][name])
    q = dear.posterior(mixed)  # z and light do not depend on draws
    expected = []
    for row in range(5):
        total = 0.0
        for name in ("z", "light"):
            normal_ = q.site(name).distribution
            mean, std = normal_.mean[row, 0].item(), normal_.stddev[row, 0].item()
            if name == "z" or row < 2:  # rows 2, 3 and 4 have the label of light
                total += (mean**2 + std**2 - 1) / 2 - math.log(std)
        expected.append(total)
    torch.testing.assert_close(terms[1]["real_kl"], torch.tensor(expected), rtol=1e-4, atol=1e-5)
    loss = [each.total(5).item() for each in terms]
    assert loss[1] == pytest.approx(loss[0] + 3 * np.mean(expected), rel=1e-5)  # beta is 4 at step 5, the bound has 1


# A batch whose rows have different labels -----------------------------------------------------------------------------


@pytest.mark.parametrize("bound", ["self_normalised", "importance_weighted"])
@pytest.mark.parametrize("samples", [1, 4])
def test_one_pass_over_mixed_labels_is_each_row_by_itself(bound, samples):
    """The twin runs the programs on single rows, without masks, at the values that the one pass drew."""
    system = toy(bound=bound, samples=samples)
    mixed = batch(5, kinds=[0, None, 2, None, 1], lights=[None, None, 0.5, -1.0, 2.0])
    part = whole(mixed, system.labels_of(mixed))
    assert part.labelled.tolist() == [True, False, True, True, True]
    together, q, _ = system.estimate(part)
    count = samples if samples > 1 else None
    estimator = {"self_normalised": self_normalised_bound, "importance_weighted": importance_weighted_bound}[bound]
    for row in range(5):
        given = {}
        for name in ("z", "kind", "light"):
            known = name != "z" and bool(mixed.labels[name].mask[row])
            given[name] = Given(q[name][..., row : row + 1, :], reused=not known)
        alone = mixed.take(torch.tensor([row]))
        q_alone = system.posterior(alone, given, samples=count)
        p_alone = system.joint(q_alone.as_given(x=alone.observations), alone, samples=count)
        expected = estimator(q_alone, p_alone)
        torch.testing.assert_close(together.bound[row], expected.bound[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(together.supervision[row], expected.supervision[0], rtol=1e-5, atol=1e-5)
    assert together.supervision[1] == 0
    assert (together.supervision[[0, 2, 3, 4]] != 0).all()


def test_labels_known_on_all_or_no_rows_need_no_mask():
    system = toy()
    part = whole(
        batch(2, kinds=[1, 2], lights=[None, None]), system.labels_of(batch(2, kinds=[1, 2], lights=[None] * 2))
    )
    assert list(part.labels) == ["kind"]
    assert part.labels["kind"].mask is None
    assert part.batch.labels == {}


# Which rows are labelled ---------------------------------------------------------------------------------------------


def test_blocks_named_as_factors_are_read():
    assert toy().reads.labels == ("kind", "light")
    assert toy(spec=DataSpec((4,), "real", 40, labels={"light": 0})).reads.labels == ("light",)


def test_all_known_labels_are_used_unless_a_number_is_set():
    data = table(known=0.5)
    known = data.rows[~np.isnan(data.column("kind"))]
    np.testing.assert_array_equal(toy().labelled(data)["kind"], known)
    chosen = toy(labels=9).labelled(data)
    assert len(chosen["kind"]) == 9
    assert set(chosen["kind"]) <= set(known)
    np.testing.assert_array_equal(chosen["kind"], chosen["light"])


def test_the_chosen_rows_depend_on_the_label_seed_only():
    data = table()
    first = toy(labels=9).labelled(data)["kind"]
    np.testing.assert_array_equal(first, toy(labels=9).labelled(data)["kind"])
    assert set(first) != set(toy(labels=9, label_seed=1).labelled(data)["kind"])


def test_chosen_rows_are_balanced_over_classes():
    classes = np.repeat([0.0, 1, 2], [50, 20, 2])
    for count, expected in ((3, [1, 1, 1]), (6, [2, 2, 2]), (12, [5, 5, 2]), (72, [50, 20, 2])):
        chosen = _balanced(classes, np.ones(72, dtype=bool), count, seed=1)
        assert len(set(chosen)) == count
        assert np.bincount(classes[chosen].astype(int)).tolist() == expected
    odd = np.bincount(classes[_balanced(classes, np.ones(72, dtype=bool), 5, seed=1)].astype(int))
    assert sorted(odd) == [1, 2, 2]


@pytest.mark.parametrize(("rho", "labels"), [(0.5, 10), (0.1, 7), (0.37, 3), (1.0, 20)])
def test_batches_have_the_share_rho_of_labelled_rows(rho, labels):
    system, data = toy(rho=rho, labels=labels), table()
    order, chosen = system.order(data, seed=3), set(system.labelled(data)["kind"])
    counts = [sum(row in chosen for row in order.rows(step)) for step in range(500)]
    assert {len(order.rows(step)) for step in range(500)} == {8}
    assert sum(counts) == math.floor(500 * 8 * rho + 1e-6)
    assert max(counts) - min(counts) <= 1
    assert float(system.labelled_share) == pytest.approx(rho)


def test_without_rho_every_row_is_seen_once_an_epoch():
    system, data = toy(labels=10), table()
    rows = np.concatenate([system.order(data, seed=0).rows(step) for step in range(5)])
    assert sorted(rows) == sorted(data.rows)
    assert float(system.labelled_share) == pytest.approx(0.25)


def test_alpha_is_a_tenth_over_the_share_of_labels():
    system = toy(labels=10)
    system.order(table(), seed=0)
    terms = system.objective("model", batch(kinds=[0, 1, 2, None, None, None]), 0)
    assert terms.weights["supervision"] == pytest.approx(0.4)
    weights = toy(alpha=3, gamma=2).objective("model", batch(), 0).weights
    assert weights == {"unlabelled_bound": 1, "labelled_bound": 2, "supervision": 6}


# The objective -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"samples": 3}, {"discrete": "enumerate"}, {"bound": "importance_weighted"}])
def test_each_row_counts_in_the_terms_that_are_its_own(settings):
    kinds, lights = [0, None, 2, None, 1, None], [0.5, None, None, -1.0, None, None]
    terms = toy(**settings).objective("model", batch(kinds=kinds, lights=lights), 0)
    labelled = torch.tensor([True, False, True, True, True, False])
    assert (terms["unlabelled_bound"] != 0).tolist() == (~labelled).tolist()
    assert (terms["labelled_bound"] != 0).tolist() == labelled.tolist()
    assert (terms["supervision"] != 0).tolist() == labelled.tolist()
    assert terms.logged()["labelled"].item() == pytest.approx(4 / 6)


def test_supervision_of_a_real_label_is_its_density_and_of_both_the_product():
    system = toy().double()
    x = batch().x.double()
    given = {"kind": Given(torch.tensor([1.0] * 6)), "light": Given(torch.tensor([0.3] * 6))}
    light_only = system.objective("model", Batch(6, x, labels={"light": given["light"]}), 0)["supervision"]
    mean, raw = system.to_light(x).chunk(2, -1)
    label = torch.tensor(0.3).double()  # single precision, as data are
    by_hand = 0.5 * math.log(2 * math.pi) + raw + 0.5 * ((label - mean) / raw.exp()) ** 2
    torch.testing.assert_close(light_only, by_hand.squeeze(-1))
    torch.manual_seed(1)
    both = system.objective("model", Batch(6, x, labels=given), 0)["supervision"]
    torch.manual_seed(1)
    z = system.posterior(Batch.of(x))["z"]
    log_kind = system.to_kind(torch.cat([x, z], -1)).log_softmax(-1)[:, 1]
    torch.testing.assert_close(both, by_hand.squeeze(-1) - log_kind)


def test_gradients_of_a_labelled_row_do_not_depend_on_other_rows():
    def gradients(seed):
        system = toy()
        first = batch(kinds=[2, None, None, 1, None, None])
        x = torch.cat([first.x[:1], torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))])
        torch.manual_seed(5)
        terms = system.objective("model", Batch(6, x, labels=first.labels), 0)
        (terms["labelled_bound"][0] + terms["supervision"][0]).backward()
        return [parameter.grad.clone() for parameter in system.parameters() if parameter.grad is not None]

    for one, two in zip(gradients(1), gradients(2), strict=True):
        torch.testing.assert_close(one, two)
        assert torch.isfinite(one).all()


@pytest.mark.parametrize("bound", ["self_normalised", "importance_weighted"])
@pytest.mark.parametrize("samples", [1, 4])
def test_supervised_gradients_reach_the_class_posterior(bound, samples):
    system = toy(bound=bound, samples=samples)
    terms = system.objective("model", batch(kinds=[0, 1, 2, 0, 1, 2]), 0)
    terms["supervision"].mean().backward()
    assert system.to_kind.weight.grad.abs().sum() > 1e-3
    assert system.to_z.weight.grad.abs().sum() > 1e-6  # through the draw z that q(kind|x,z) depends on
    assert system.to_x.weight.grad is None


def test_mislabelled_counts_rows_whose_likeliest_class_is_another():
    system = toy()
    with torch.no_grad():
        system.to_kind.weight.zero_()
        system.to_kind.bias.copy_(torch.tensor([0.0, 5.0, 0.0]))
    terms = system.objective("model", batch(kinds=[1, 1, 0, None, None, 2]), 0)
    assert terms.logged()["mislabelled"].item() == pytest.approx(2 / 6)


def test_an_enumerated_class_that_is_certain_counts_as_if_labelled():
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).repeat(4000, 1)

    def costs(term, labels, **settings):
        system = toy(**settings)
        with torch.no_grad():
            system.to_kind.weight.zero_()
            system.to_kind.bias.copy_(torch.tensor([-60.0, 60.0, -60.0]))
        return system.objective("model", Batch(12000, x, labels=labels), 0)[term].detach().reshape(4000, 3)

    free = costs("unlabelled_bound", {}, discrete="enumerate")
    given = costs("labelled_bound", {"kind": Given(torch.ones(12000))})
    error = (free.var(0) / 4000 + given.var(0) / 4000).sqrt()
    assert ((free.mean(0) - given.mean(0)).abs() < 5 * error).all()
    assert error.max() < 0.2


# Labels of several numbers, and of whole numbers ---------------------------------------------------------------------


class Faces(Toy):
    """Labels of another name, two numbers for one block."""

    @property
    def blocks(self):
        return (Block("z", (1,)), Block("kind", (3,), kind="simplex"), Block("light", (2,)))

    @property
    def labelled_by(self):
        return {"kind": ("person",), "light": ("azimuth", "elevation")}

    def infer(self, q, batch):
        x = batch.observations
        q.sample("z", normal(self.to_z(x)[..., :1], 1.0))
        q.sample("kind", self.category(self.to_kind(joined(x, q["z"]))))
        q.sample("light", normal(self.to_light(x), 1.0))

    def generate(self, p, context):
        z = p.sample("z", standard_normal(1))
        kind = p.sample("kind", self.uniform_category(3))
        light = p.sample("light", standard_normal(2))
        p.sample("x", normal(self.to_x(joined(z, kind, light[..., :1])), 1.0))


def test_a_block_of_several_numbers_is_labelled_by_several_factors():
    spec = DataSpec((4,), "real", 40, labels={"person": 3, "azimuth": 0, "elevation": 0})
    system = toy(Faces, spec)
    assert system.reads.labels == ("person", "azimuth", "elevation")
    known = torch.tensor([True, True, False])
    labels = {
        "azimuth": Given(torch.tensor([0.1, 0.2, 0.3]), known),
        "elevation": Given(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True])),
        "person": Given(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([False, True, True])),
    }
    found = system.labels_of(Batch(3, torch.zeros(3, 4), labels=labels))
    assert found["light"].mask.tolist() == [True, False, False]
    assert found["light"].value[0].tolist() == pytest.approx([0.1, 1.0])
    assert found["kind"].value[1].tolist() == [0, 1, 0]
    terms = system.objective("model", Batch(3, torch.zeros(3, 4), labels=labels), 0)
    assert torch.isfinite(terms.total())
    assert (terms["labelled_bound"] != 0).all()


class Whole(Toy):
    """A category written as a whole number."""

    @property
    def blocks(self):
        return (Block("kind", (), (), kind="discrete"),)

    def infer(self, q, batch):
        q.sample("kind", Categorical(logits=self.to_kind(joined(batch.observations, batch.observations[:, :1]))))

    def generate(self, p, context):
        kind = p.sample("kind", Categorical(logits=torch.zeros(3)))
        p.sample("x", normal(self.to_x(joined(nn.functional.one_hot(kind, 3).float(), torch.zeros(2))), 1.0))


def test_whole_numbers_are_enumerated_and_labelled():
    system = toy(Whole, discrete="enumerate")
    x = batch().x
    got = system.objective("model", Batch.of(x), 0)["unlabelled_bound"]
    log_q = system.to_kind(torch.cat([x, x[:, :1]], -1)).log_softmax(-1)
    total = torch.zeros(6)
    for k in range(3):
        mean = system.to_x(torch.cat([nn.functional.one_hot(torch.tensor(k), 3), torch.zeros(2)]))
        log_p = torch.distributions.Normal(mean, 1.0).log_prob(x).sum(-1) - math.log(3)
        total = total + log_q[:, k].exp() * (log_p - log_q[:, k])
    torch.testing.assert_close(got, -total)
    labelled = system.objective("model", batch(kinds=[0, 1, 2, 0, 1, 2]), 0)
    torch.testing.assert_close(labelled["supervision"], -log_q[range(6), [0, 1, 2, 0, 1, 2]])
    with pytest.raises(UnweaveError, match="discrete=enumerate"):
        toy(Whole).objective("model", Batch.of(x), 0)


def test_joined_fills_in_the_sample_axis():
    side = joined(torch.zeros(3, 2), torch.ones(5, 3, 4), torch.ones(1))
    assert side.shape == (5, 3, 7)
    assert side.sum().item() == 5 * 3 * 5


# Training ------------------------------------------------------------------------------------------------------------


def dataset(known=1.0):
    data = table(60, known=known)
    x = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
    factors = data.factors
    return from_arrays(x, factors=factors.values[:, :1], names=("kind",), kinds=("discrete",), values="real")


def test_trains_and_resumes_to_the_same_weights(tmp_path):
    settings = {"labels": 12, "rho": 0.3, "training.steps": 12, "training.batch_size": 8}
    options = {"checkpoint_every": 4, "progress": False, "threads": 1}
    whole = train(Toy, dataset(), settings=settings, run=tmp_path / "whole", **options)
    train(Toy, dataset(), settings={**settings, "training.steps": 8}, run=tmp_path / "part", **options)
    rest = resume(tmp_path / "part", steps=12, data=dataset(), progress=False)
    for one, two in zip(whole.system().parameters(), rest.system().parameters(), strict=True):
        assert torch.equal(one, two)
    assert whole.log()["labelled"][-1] == pytest.approx(0.3, abs=0.1)


def test_withheld_labels_never_reach_the_batch(tmp_path):
    seen = {}

    class Spy(Toy):
        def objective(self, player, batch, step):
            given = batch.labels["kind"]
            seen.update({int(row): bool(known) for row, known in zip(batch.index, given.mask, strict=True)})
            return super().objective(player, batch, step)

    settings = {"labels": 6, "training.steps": 20, "training.batch_size": 8}
    run = train(Spy, dataset(), settings=settings, run=tmp_path / "run", progress=False, threads=1)
    rows = run.split_rows()["train"]
    assert set(seen) == set(rows.tolist())
    assert sum(seen.values()) == 6


@pytest.mark.parametrize("settings", [{}, {"rho": 1.0}])
def test_fully_labelled_data_train(tmp_path, settings):
    small = {"training.steps": 3, "training.batch_size": 8, **settings}
    run = train(Toy, dataset(), settings=small, run=tmp_path / "run", progress=False, threads=1)
    assert run.log()["labelled"][-1] == 1
    assert run.log()["unlabelled_bound"][-1] == 0


def test_no_labels_at_all_are_an_error_unless_asked_for(tmp_path):
    with pytest.raises(DataError, match=r"no training row has a label \(kind, light\).*labels=0"):
        toy().order(table(known=0.0), seed=0)
    small = {"training.steps": 3, "training.batch_size": 8}
    options = {"run": tmp_path / "run", "progress": False, "threads": 1}
    bare = from_arrays(np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32), values="real")
    with pytest.raises(DataError, match=r"none of the blocks z, kind, light is a factor of the data"):
        train(Toy, bare, settings=small, **options)
    assert not (tmp_path / "run").exists()
    run = train(Toy, bare, settings={**small, "labels": 0}, **options)
    assert run.log()["labelled"][-1] == 0


# Bad inputs ----------------------------------------------------------------------------------------------------------


def test_labels_outside_the_range_are_refused():
    with pytest.raises(DataError, match=r"label 3 of 'kind' is outside its range: expected whole numbers 0 to 2"):
        toy().objective("model", batch(kinds=[0, 1, 3, None, None, None]), 0)
    with pytest.raises(DataError, match=r"label -1 of 'kind'"):
        toy().objective("model", batch(kinds=[0, 1, -1, None, None, None]), 0)
    with pytest.raises(DataError, match=r"label 0\.5 of 'kind'"):
        toy().objective("model", batch(kinds=[0, 1, 0.5, None, None, None]), 0)
    with pytest.raises(DataError, match=r"label 4 of 'kind'"):
        toy().order(table(kinds=5), seed=0)


def test_values_of_rows_without_a_label_do_not_matter():
    toy().objective("model", batch(kinds=[0, 1, None, None, None, None]), 0)  # NaN where masked
    strange = Batch(
        2, torch.zeros(2, 4), labels={"kind": Given(torch.tensor([1.0, 77.0]), torch.tensor([True, False]))}
    )
    toy().objective("model", strange, 0)


def test_labels_of_unknown_variables_are_refused():
    wrong = Batch(2, torch.zeros(2, 4), labels={"kinds": Given(torch.zeros(2))})
    with pytest.raises(UnknownNameError, match=r"unknown labelled variable 'kinds': did you mean 'kind'"):
        toy().objective("model", wrong, 0)


def test_labels_of_the_wrong_shape_are_refused():
    wrong = Batch(2, torch.zeros(2, 4), labels={"light": Given(torch.zeros(2, 3))})
    with pytest.raises(ShapeError, match=r"block 'light' of shape \(1,\) got labels of shape \(3,\)"):
        toy().objective("model", wrong, 0)


def test_settings_that_cannot_be_are_refused():
    for rho in (0, -0.1, 1.5):
        with pytest.raises(ConfigError, match="rho"):
            toy(rho=rho)
    with pytest.raises(ConfigError, match="temperature"):
        toy(temperature=0)
    with pytest.raises(DataError, match="labels=50 are asked for and 40 training rows have one"):
        toy(labels=50).order(table(), seed=0)
    with pytest.raises(DataError, match=r"all training rows are labelled and rho=0\.5"):
        toy(rho=0.5).order(table(), seed=0)
    with pytest.raises(ConfigError, match="labels=0 leaves no labelled rows"):
        toy(labels=0, rho=0.5).order(table(), seed=0)


def test_a_variable_the_recognition_program_misses_is_named():
    class Missing(Toy):
        def infer(self, q, batch):
            q.sample("z", normal(self.to_z(batch.observations)[..., :1], 1.0))
            q.sample("kind", self.category(self.to_kind(joined(batch.observations, q["z"]))))

    with pytest.raises(UnweaveError, match="does not sample block 'light'"):
        toy(Missing).objective("model", batch(), 0)

    class Extra(Toy):
        def generate(self, p, context):
            p.sample("hidden", standard_normal(1))
            super().generate(p, context)

    with pytest.raises(UnweaveError, match="misses variable 'hidden'"):
        toy(Extra).objective("model", batch(), 0)


def test_a_label_source_for_an_unknown_block_is_named():
    class Wrong(Toy):
        @property
        def labelled_by(self):
            return {"kinds": ("kind",)}

    with pytest.raises(UnknownNameError, match="'kind'"):
        toy(Wrong).order(table(), seed=0)


def test_tutorial_runs(root, run_page):
    assert run_page(root / "docs" / "tutorials" / "own_graph.md") == 4
