"""The FactorVAE: two players, each with its own cost, parameters and batch."""

import math

import numpy as np
import pytest
import torch

from unweave.base.errors import DataError
from unweave.core.batch import Batch
from unweave.core.system import only_requires_grad
from unweave.data import from_arrays
from unweave.runs import train

SMALL = {"discriminator.layers": 2, "discriminator.width": 11}


def build(bench, **settings):
    return bench.system("factorvae", {**SMALL, **settings})


@torch.no_grad()
def discriminate(system, z):
    """Logits of one code, layer by layer."""
    h = z
    for layer in system.discriminator.layers:
        linear = isinstance(layer, torch.nn.Linear)
        h = layer.weight @ h + layer.bias if linear else torch.where(h > 0, h, 0.2 * h)
    return h


def test_vae_total_against_the_formula(bench):
    system = build(bench, gamma=6)
    terms, hand = bench.objective(system, bench.batch(second=True), "vae"), bench.by_hand(system)
    kl = float((0.5 * (hand.std**2 + hand.mean**2 - 1) - hand.std.log()).sum() / hand.rows)

    def log_odds(b):
        probability = float(torch.softmax(discriminate(system, hand.z[b]), 0)[0])
        return math.log(probability) - math.log(1 - probability)

    total_correlation = hand.mean_of(log_odds)
    expected = hand.mean_of(lambda b: -hand.log_likelihood(b)) + kl + 6 * total_correlation
    assert terms.mean("total_correlation").item() == pytest.approx(total_correlation, abs=1e-9)
    assert terms.total().item() == pytest.approx(expected, abs=1e-9)


def test_discriminator_cost_against_loops(bench):
    system = build(bench)
    batch = bench.batch(second=True)
    terms = bench.objective(system, batch, "discriminator")
    torch.manual_seed(1)
    joint, second = system.posterior(batch)["z"], system.posterior(batch.extra["second"])["z"]
    order = torch.rand(second.shape).argsort(dim=0)
    cost, right = 0.0, 0
    for b in range(6):
        permuted = torch.stack([second[order[b, d], d] for d in range(3)])
        on_joint = torch.softmax(discriminate(system, joint[b]), 0)
        on_permuted = torch.softmax(discriminate(system, permuted), 0)
        cost -= 0.5 * (math.log(float(on_joint[0])) + math.log(float(on_permuted[1])))
        right += int(on_joint[0] > 0.5) + int(on_permuted[1] > 0.5)
    assert terms.total().item() == pytest.approx(cost / 6, abs=1e-9)
    assert terms.logged()["accuracy"].item() == pytest.approx(right / 12)


def test_each_objective_moves_its_own_player_only(bench):
    system, batch = build(bench), bench.batch(second=True)
    vae, discriminator = system.players()
    with only_requires_grad(system, vae):
        bench.objective(system, batch, "vae").total().backward()
    assert all(p.grad is None for p in system.discriminator.parameters())
    assert all(p.grad is not None for p in system.networks.parameters())
    system.zero_grad(set_to_none=True)
    # No help from the players here: the codes are constants to the discriminator by construction.
    bench.objective(system, batch, "discriminator").total().backward()
    assert all(p.grad is None for p in system.networks.parameters())
    assert all(p.grad is not None for p in system.discriminator.parameters())
    assert discriminator.modules == (system.discriminator,)


def test_total_correlation_reaches_the_encoder_through_the_fixed_discriminator(bench):
    system, batch = build(bench), bench.batch(second=True)
    with only_requires_grad(system, system.players()[0]):
        bench.objective(system, batch, "vae").mean("total_correlation").backward()
    bias = system.networks.head.linear.bias
    assert all(p.grad is None for p in system.networks.decoder.parameters())
    # Raising the mean of dimension 0 by h raises every z_0 by h: compare with a finite difference.
    h = 1e-6
    values = []
    for shift in (h, -h):
        with torch.no_grad():
            bias[0] += shift
            values.append(bench.objective(system, batch, "vae").mean("total_correlation").item())
            bias[0] -= shift
    assert bias.grad[0].item() == pytest.approx((values[0] - values[1]) / (2 * h), abs=1e-6)
    assert abs(bias.grad[0].item()) > 1e-5


def test_the_discriminator_sees_the_codes_that_the_vae_drew(bench, monkeypatch):
    """Once for each turn of the VAE, and for this very batch; otherwise it draws its own."""
    system, batch, other = build(bench), bench.batch(second=True), bench.batch(second=True)
    encoded = []
    monkeypatch.setattr(system, "_codes", lambda batch: encoded.append(batch) or torch.zeros(batch.rows, 3).double())
    seen = []
    system.discriminator.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    system.objective("vae", batch, 0)
    system.objective("discriminator", batch, 0)
    assert torch.equal(seen[1][: batch.rows], seen[0].detach())
    assert len(seen[1]) == 2 * batch.rows  # and as many whose dimensions were permuted
    assert not seen[1].requires_grad
    second = batch.extra["second"]
    assert [id(each) for each in encoded] == [id(second)]
    system.objective("discriminator", batch, 1)  # the VAE rested
    system.objective("vae", batch, 2)
    system.objective("discriminator", other, 2)
    expected = (batch, second, second, other, other.extra["second"])
    assert [id(each) for each in encoded[1:]] == [id(each) for each in expected]


def test_both_halves_are_codes_of_one_encoder(bench):
    """Codes of before and after the VAE's step could be told apart by the step alone.

    Here the encoder moves far in a step, and both batches are the same images: what is permuted are codes of the
    encoder that the joint half is of.
    """
    system = build(bench)
    batch = bench.batch(second=True)
    batch = Batch(rows=batch.rows, x=batch.x, extra={"second": Batch(rows=batch.rows, x=batch.x)})
    seen = []
    system.discriminator.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
    system.objective("vae", batch, 0)
    with torch.no_grad():
        for parameter in system.networks.parameters():
            parameter += 10.0
    after = system._codes(batch)
    system.objective("discriminator", batch, 0)
    joint, permuted = seen[1].tensor_split(2)
    assert (after.mean() - joint.mean()).abs() > 5
    assert (permuted.mean() - joint.mean()).abs() < 3


def test_second_batch_is_the_discriminators_alone(bench):
    system = build(bench)
    one, other = bench.batch(second=True), bench.batch(second=True)
    other = Batch(rows=6, x=other.x, extra={"second": bench.batch(55)})
    assert torch.equal(bench.objective(system, one, "vae").total(), bench.objective(system, other, "vae").total())
    costs = [bench.objective(system, batch, "discriminator").total().item() for batch in (one, other)]
    assert costs[0] != costs[1]
    with pytest.raises(DataError, match="second"):
        bench.objective(system, bench.batch(), "discriminator")


def test_no_gamma_is_the_vae_exactly(bench):
    vae, factor = bench.system("vae"), build(bench, gamma=0)
    bench.share(vae, factor)
    batch = bench.batch(second=True)
    assert torch.equal(bench.objective(vae, batch).total(), bench.objective(factor, batch, "vae").total())


def test_discriminator_learns_to_see_dependence(bench):
    """On codes whose dimensions are equal, the estimated total correlation rises well above zero."""
    system = build(bench)
    with torch.no_grad():
        linear = system.networks.head.linear
        linear.weight[:3] = linear.weight[0]
        linear.bias[:3] = linear.bias[0]
        linear.weight[3:], linear.bias[3:] = 0.0, -4.0
    optimiser = torch.optim.Adam(system.discriminator.parameters(), lr=1e-2)
    for step in range(150):
        batch = Batch(rows=64, x=bench.batch(step, 64).x, extra={"second": bench.batch(1000 + step, 64)})
        optimiser.zero_grad()
        bench.objective(system, batch, "discriminator", noise=step).total().backward()
        optimiser.step()
    batch = Batch(rows=64, x=bench.batch(5000, 64).x, extra={"second": bench.batch(5001, 64)})
    assert bench.objective(system, batch, "discriminator").logged()["accuracy"] > 0.8
    assert bench.objective(system, batch, "vae").mean("total_correlation") > 1


def test_vae_plays_every_so_many_steps(tmp_path):
    x = np.random.default_rng(0).random((32, 5)).astype(np.float32)
    settings = {**SMALL, "nets.hidden": [4], "discriminator.updates": 3, "training.steps": 5, "training.batch_size": 8}
    run = train(
        "factorvae", from_arrays(x), settings=settings, run=tmp_path / "run", log_every=1, progress=False, threads=1
    )
    log = run.log()
    assert np.isfinite(log["vae/total"]).tolist() == [True, False, False, True, False]
    assert np.isfinite(log["discriminator/total"]).all()
