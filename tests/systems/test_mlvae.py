"""The ML-VAE against its Group ELBO written out group by group, and against the VAE it becomes without groups."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from unweave.base.errors import ConfigError, DataError, UnknownNameError
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.factors import Factors
from unweave.core.order import Table
from unweave.systems.mlvae import MLVAE, MLVAEConfig
from unweave.systems.vae import VAE, VAEConfig

SPEC = DataSpec((5,), "real", 40, labels={"digit": 4})
SMALL = {"content": 2, "style": 3, "nets.hidden": [7], "nets.activation": "tanh"}
GROUP = torch.tensor([0, 1, 1, 2, 1, 0])  # sizes 2, 3, 1
OPTIONS = [(a, d) for a in ("product", "mixture") for d in ("observation", "group")]


def build(spec=SPEC, seed=0, **settings):
    """A system in double precision whose codes say something: the heads' weights are made three times larger."""
    torch.manual_seed(seed)
    system = MLVAE(MLVAEConfig().override({**SMALL, **settings}), spec).double()
    with torch.no_grad():
        for parameter in (*system.content_head.parameters(), *system.style_head.parameters()):
            parameter.mul_(3.0)
    return system


def batch(group=GROUP, seed=0, rows=6):
    generator = torch.Generator().manual_seed(seed)
    return Batch(rows=rows, x=torch.randn(rows, 5, generator=generator, dtype=torch.float64), group=group)


def objective(system, of, noise=1):
    torch.manual_seed(noise)
    return system.objective("model", of, 0)


def log_normal(x, mean, std):
    return -0.5 * math.log(2 * math.pi) - math.log(std) - 0.5 * ((x - mean) / std) ** 2


def normal_kl(mean, std):
    return sum(0.5 * (float(s) ** 2 + float(m) ** 2 - 1) - math.log(float(s)) for m, s in zip(mean, std, strict=True))


def heads(system, x):
    """Means and standard deviations of q(c|x_i) and q(s|x_i), straight from the linear layers."""
    parts = []
    for head in (system.content_head, system.style_head):
        mean, log_variance = head.linear(system.encoder(x)).chunk(2, -1)
        parts += [mean.detach(), torch.exp(log_variance / 2).detach()]
    return parts


def by_hand(system, of, noise=1):
    """Eq. 5 as a cost, with loops over groups, members and dimensions; the draws are those of the system."""
    torch.manual_seed(noise)
    q = system.posterior(of)
    content, style = q["content"].detach(), q["style"].detach()
    decoded = system.decoder(torch.cat([content, style], -1)).detach()
    content_mean, content_std, style_mean, style_std = heads(system, of.observations)
    groups = of.group.unique().tolist()
    totals = {"reconstruction": 0.0, "style_kl": 0.0, "content_kl": 0.0}
    for g in groups:
        rows = [b for b in range(of.rows) if of.group[b] == g]
        for b in rows:
            pairs = zip(of.observations[b], decoded[b], strict=True)
            totals["reconstruction"] -= sum(log_normal(float(x), float(m), 1.0) for x, m in pairs)
            totals["style_kl"] += normal_kl(style_mean[b], style_std[b])
        if system.config.accumulate == "product":
            precision = sum(1 / content_std[b] ** 2 for b in rows)
            mean = sum(content_mean[b] / content_std[b] ** 2 for b in rows) / precision
            totals["content_kl"] += normal_kl(mean, precision**-0.5)
            continue
        for b in rows:  # one estimate of the KL per draw; their mean is the group's
            c = content[b]
            density = 0.0
            for i in rows:
                terms = zip(c, content_mean[i], content_std[i], strict=True)
                density += math.exp(sum(log_normal(float(v), float(m), float(s)) for v, m, s in terms)) / len(rows)
            prior = sum(log_normal(float(v), 0.0, 1.0) for v in c)
            totals["content_kl"] += (math.log(density) - prior) / len(rows)
    return {name: value / len(groups) for name, value in totals.items()}


@pytest.mark.parametrize(("accumulate", "draws"), OPTIONS)
def test_terms_are_the_average_group_elbo(accumulate, draws):
    system = build(accumulate=accumulate, content_draws=draws)
    terms, expected = objective(system, batch()), by_hand(system, batch())
    assert set(terms) == set(expected)
    for name, value in expected.items():
        assert terms[name].shape == (6,)
        assert terms.mean(name).item() == pytest.approx(value, abs=1e-9)
    assert terms.total().item() == pytest.approx(sum(expected.values()), abs=1e-9)
    assert abs(expected["content_kl"]) > 0.03  # the codes of the test say something; a sampled KL may be negative


def test_total_is_a_mean_over_groups_not_over_rows():
    system = build()
    whole = objective(system, batch()).total().item()
    rows = [torch.nonzero(g == GROUP).flatten() for g in range(3)]
    noiseless = []
    torch.manual_seed(1)
    q = system.posterior(batch())
    for of in rows:
        part = Batch(rows=len(of), x=batch().observations[of], group=torch.zeros(len(of), dtype=torch.long))
        given = {name: q[name][of] for name in ("content", "style")}
        p = system.joint({**given, "x": part.observations}, part)
        single = objective(system, part)
        cost = -p.site("x").log_prob.sum() + single.mean("style_kl") + single.mean("content_kl")
        noiseless.append(cost.item())
    assert whole == pytest.approx(sum(noiseless) / 3, abs=1e-9)


@pytest.mark.parametrize(("accumulate", "draws"), OPTIONS)
def test_draws_per_observation_or_per_group(accumulate, draws):
    system = build(accumulate=accumulate, content_draws=draws)
    torch.manual_seed(0)
    content = system.posterior(batch())["content"]
    assert torch.equal(content[1], content[2]) == (draws == "group")
    assert not torch.equal(content[0], content[1])
    style = system.posterior(batch())["style"]
    assert not torch.equal(style[1], style[2])


@pytest.mark.parametrize("grouped", [False, True])
def test_groups_of_one_are_the_vae(grouped, monkeypatch):
    """Same weights, same noise, same loss: content and style side by side are the VAE's code."""
    system = build()
    vae = VAE(VAEConfig(latent=5).override({"nets.hidden": [7], "nets.activation": "tanh"}), SPEC).double()
    vae.networks.encoder.load_state_dict(system.encoder.state_dict())
    vae.networks.decoder.load_state_dict(system.decoder.state_dict())
    order = [0, 1, 4, 5, 6, 2, 3, 7, 8, 9]  # linear layers give means first, then log-variances
    for name in ("weight", "bias"):
        parts = torch.cat([getattr(head.linear, name) for head in (system.content_head, system.style_head)])
        getattr(vae.networks.head.linear, name).data = parts.detach()[order]
    noise = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    drawn = {2: noise[:, :2], 3: noise[:, 2:], 5: noise}
    monkeypatch.setattr("torch.distributions.normal._standard_normal", lambda shape, dtype, device: drawn[shape[-1]])
    alone = torch.arange(6) if grouped else None
    ours, theirs = system.objective("model", batch(alone), 0), vae.objective("model", batch(None), 0)
    torch.testing.assert_close(ours["reconstruction"], theirs["reconstruction"])
    torch.testing.assert_close(ours["content_kl"] + ours["style_kl"], theirs["kl"])
    assert ours.total().item() == pytest.approx(theirs.total().item(), rel=1e-12)


@pytest.mark.parametrize(("accumulate", "draws"), OPTIONS)
def test_gradients_reach_the_content_head_through_every_member(accumulate, draws):
    system = build(accumulate=accumulate, content_draws=draws)
    of = batch(torch.zeros(6, dtype=torch.long))
    features = system.encoder(of.observations).detach().requires_grad_()
    system.encoder = nn.Module()
    system.encoder.forward = lambda x: features  # what each member's features did to the loss can then be read off
    with torch.no_grad():  # through the content alone
        system.style_head.linear.weight.zero_()
    objective(system, of)["content_kl"].mean().backward()
    assert (features.grad.abs().sum(-1) > 0).all()
    assert system.content_head.linear.weight.grad.abs().min() > 0

    # one member's reconstruction depends on all members of its group
    features.grad = None
    for seed in range(30):  # a mixture decodes the draw of one member at a time
        objective(system, of, noise=seed)["reconstruction"][0].backward()
    assert (features.grad.abs().sum(-1) > 0).all()


def test_every_parameter_gets_a_gradient():
    for accumulate, draws in OPTIONS:
        system = build(accumulate=accumulate, content_draws=draws)
        objective(system, batch()).total().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in system.parameters())


def test_order_of_rows_and_numbers_of_groups_change_nothing():
    system = build()
    shuffled = torch.tensor([4, 0, 3, 5, 1, 2])
    renumbered = torch.tensor([2, 0, 1])
    moved = Batch(rows=6, x=batch().observations[shuffled], group=renumbered[GROUP][shuffled])
    q, r = system.posterior(batch(), centred=True), system.posterior(moved, centred=True)
    for name in ("content", "style"):
        torch.testing.assert_close(q[name][shuffled], r[name])
    p = system.joint(q.as_given(x=batch().observations), batch())
    p_moved = system.joint(r.as_given(x=moved.observations), moved)
    torch.testing.assert_close(p.site("x").log_prob[shuffled], p_moved.site("x").log_prob)
    one, other = objective(system, batch()), objective(system, moved)
    for name in ("style_kl", "content_kl"):
        torch.testing.assert_close(one[name][shuffled], other[name])


@pytest.mark.parametrize("accumulate", ["product", "mixture"])
def test_encoding_with_and_without_groups(accumulate):
    system = build(accumulate=accumulate)
    alone, together = system.encode(batch(None)), system.encode(batch())
    content_mean, content_std, style_mean, style_std = heads(system, batch().observations)
    np.testing.assert_allclose(alone["content"], content_mean, rtol=1e-9)
    np.testing.assert_allclose(alone.spread("content"), content_std, rtol=1e-9)
    np.testing.assert_array_equal(alone["style"], together["style"])
    np.testing.assert_allclose(together.spread("style"), style_std, rtol=1e-9)
    np.testing.assert_allclose(together["style"], style_mean, rtol=1e-9)
    np.testing.assert_allclose(together["content"][1], together["content"][2], rtol=1e-9)
    np.testing.assert_allclose(together["content"][3], alone["content"][3], rtol=1e-9)  # a group of one
    rows = [1, 2, 4]
    if accumulate == "product":
        precision = (1 / content_std[rows] ** 2).sum(0)
        expected = (content_mean[rows] / content_std[rows] ** 2).sum(0) / precision
        np.testing.assert_allclose(together.spread("content")[1], precision**-0.5, rtol=1e-9)
    else:
        expected = content_mean[rows].mean(0)
    np.testing.assert_allclose(together["content"][1], expected, rtol=1e-9)


def test_sample_axis():
    for accumulate, draws in OPTIONS:
        system = build(accumulate=accumulate, content_draws=draws)
        q = system.posterior(batch(), samples=4)
        assert q["content"].shape == (4, 6, 2)
        p = system.joint(q.as_given(x=batch().observations), batch(), samples=4)
        assert p.site("x").log_prob.shape == (4, 6)


def test_generating_groups_shares_the_content():
    system = build()
    torch.manual_seed(0)
    p = system.joint({}, Batch(rows=6, group=GROUP))
    assert torch.equal(p["content"][1], p["content"][4])
    assert not torch.equal(p["content"][0], p["content"][1])
    assert len(np.unique(system.draw(6, seed=0)["content"][:, 0])) == 6


def test_diagnostics():
    terms = objective(build(), batch())
    logged = terms.logged()
    assert logged["group_size"].item() == pytest.approx(2.0)
    _, std, _, _ = heads(build(), batch().observations)
    by_group = [(1 / std[g == GROUP] ** 2).sum(0) ** -0.5 for g in range(3)]
    assert logged["content_std"].item() == pytest.approx(float(torch.stack(by_group).mean()), rel=1e-5)


def test_blocks_and_own_networks():
    encoder, decoder = nn.Linear(5, 4), nn.Linear(5, 5)
    system = MLVAE(MLVAEConfig().override(SMALL), SPEC, encoder=encoder, decoder=decoder)
    assert system.encoder.module is encoder
    assert system.decoder.module is decoder
    assert [(block.name, block.shape, block.scope) for block in system.blocks] == [
        ("content", (2,), "group"),
        ("style", (3,), "example"),
    ]


def table(groups, names=("digit",), kinds=("discrete",)):
    values = np.asarray(groups, dtype=np.float64)[:, None]
    return Table(np.arange(100, 100 + len(values)), Factors(names, values, kinds))


@pytest.mark.parametrize(
    ("settings", "per_batch", "most"),
    [
        ({"groups_per_batch": 2, "members": 3}, 2, 3),
        ({"groups_per_batch": 2, "members": "all"}, 2, 10),
        ({"groups_per_batch": 2, "training.batch_size": 8}, 2, 4),
        ({"groups_per_batch": 50, "training.batch_size": 8}, 4, 2),
        ({"groups_per_batch": 4, "training.batch_size": 2}, 4, 1),
    ],
)
def test_batches_hold_groups(settings, per_batch, most):
    groups = np.repeat(np.arange(4), [10, 10, 10, 1])
    order = build(**settings).order(table(groups), seed=0, stream=0)
    sizes = set()
    for step in range(12):
        rows = order.rows(step)
        found, counts = np.unique(groups[rows - 100], return_counts=True)
        assert len(found) == per_batch
        assert len(set(rows.tolist())) == len(rows)
        sizes |= set(counts.tolist())
    assert sizes == {1, most}


def test_members_are_read_from_text():
    assert MLVAEConfig().override({"members": "all"}).members == "all"
    assert MLVAEConfig().override({"members": "7"}).members == 7
    assert MLVAEConfig().override({"members": "none"}).members is None
    with pytest.raises(ConfigError, match="members"):
        MLVAEConfig().override({"members": "some"})


def test_which_factor_groups():
    assert build().reads.group == "digit"
    several = DataSpec((5,), "real", 40, labels={"digit": 10, "writer": 5, "slant": 0})
    assert build(several, group="writer").reads.group == "writer"
    assert build(DataSpec((5,), "real", 40, labels={"digit": 10, "group": 5})).reads.group == "group"
    for spec, name, kind, words in (
        (several, "", DataError, "several factors could group the data, digit, writer"),
        (several, "writters", UnknownNameError, "did you mean 'writer'"),
        (several, "slant", DataError, "'slant' is continuous and cannot group observations: choose one of digit"),
        (DataSpec((5,), "real", 40), "", DataError, "the data have no groups"),
    ):
        with pytest.raises(kind, match=words) as caught:
            _ = build(spec, group=name).reads
        assert "\n" not in str(caught.value)


def test_content_takes_what_the_group_shares(tmp_path):
    """Two numbers per observation, one shared by the group: after training, content tells it and style the other."""
    from unweave.data import from_arrays
    from unweave.runs import train

    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 10)
    shared, own = rng.normal(size=60)[groups], rng.normal(size=600)
    x = np.stack([shared, own, shared + own], 1) + 0.05 * rng.normal(size=(600, 3))
    data = from_arrays(x.astype(np.float32), factors=groups[:, None], names=("family",), values="real")
    settings = {
        "content": 1,
        "style": 1,
        "nets.hidden": [32],
        "likelihood.std": 0.2,
        "groups_per_batch": 12,
        "members": "all",
        "training.steps": 500,
        "training.optimiser.lr": 5e-3,
    }
    run = train("mlvae", data, settings=settings, run=tmp_path / "run", progress=False, threads=1)
    codes = run.encode_rows(np.arange(600))
    agreement = np.abs(np.corrcoef([codes["content"][:, 0], codes["style"][:, 0], shared, own])[:2, 2:])
    assert agreement[0, 0] > 0.9
    assert agreement[1, 1] > 0.9
    assert agreement[0, 1] < 0.3
    assert agreement[1, 0] < 0.3
    together = run.encode_rows(np.arange(600), groups=groups)
    assert (together.spread("content") < codes.spread("content")).all()
    assert together.spread("content").mean() < 0.5 * codes.spread("content").mean()
