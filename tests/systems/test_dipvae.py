"""The DIP-VAE: covariances by loops, and a running estimate that survives saving."""

import pytest
import torch


def covariance(means, stds=None):
    rows, dims = means.shape
    centre = [sum(float(means[b, i]) for b in range(rows)) / rows for i in range(dims)]
    table = [
        [
            sum((float(means[b, i]) - centre[i]) * (float(means[b, j]) - centre[j]) for b in range(rows)) / rows
            for j in range(dims)
        ]
        for i in range(dims)
    ]
    if stds is not None:
        for i in range(dims):
            table[i][i] += sum(float(stds[b, i]) ** 2 for b in range(rows)) / rows
    return table


def penalties(table):
    dims = range(len(table))
    return sum(table[i][j] ** 2 for i in dims for j in dims if i != j), sum((table[i][i] - 1) ** 2 for i in dims)


@pytest.mark.parametrize("variant", ["I", "II"])
def test_total_against_loops(bench, variant):
    system = bench.system("dipvae", {"variant": variant, "lambda_od": 3, "lambda_d": 30, "momentum": 0})
    terms, hand = bench.objective(system), bench.by_hand(system)
    off_diagonal, diagonal = penalties(covariance(hand.mean, hand.std if variant == "II" else None))
    kl = float((0.5 * (hand.std**2 + hand.mean**2 - 1) - hand.std.log()).sum() / hand.rows)
    expected = hand.mean_of(lambda b: -hand.log_likelihood(b)) + kl + 3 * off_diagonal + 30 * diagonal
    assert terms.mean("off_diagonal").item() == pytest.approx(off_diagonal, abs=1e-9)
    assert terms.mean("diagonal").item() == pytest.approx(diagonal, abs=1e-9)
    assert terms.total().item() == pytest.approx(expected, abs=1e-9)
    assert terms.batch_statistics == ("off_diagonal", "diagonal")


def test_running_covariance_pools_batches(bench):
    """After two batches with momentum m the estimate is that of all their codes, weighted m : 1."""
    system = bench.system("dipvae", {"momentum": 0.75})
    first, second = bench.batch(0), bench.batch(7)
    bench.objective(system, first)
    terms = bench.objective(system, second)
    means = torch.cat([bench.by_hand(system, first).mean, bench.by_hand(system, second).mean])
    weights = torch.cat([torch.full((6,), 0.75), torch.full((6,), 1.0)]).double()
    weights = weights / weights.sum()
    centred = means - weights @ means
    pooled = (weights[:, None] * centred).T @ centred
    off_diagonal, diagonal = penalties(pooled.tolist())
    assert terms.mean("off_diagonal").item() == pytest.approx(off_diagonal, abs=1e-9)
    assert terms.mean("diagonal").item() == pytest.approx(diagonal, abs=1e-9)


@pytest.mark.parametrize("variant", ["I", "II"])
def test_no_weight_is_the_vae_exactly(bench, variant):
    vae = bench.system("vae")
    dip = bench.system("dipvae", {"lambda_od": 0, "lambda_d": 0, "variant": variant})
    bench.share(vae, dip)
    assert torch.equal(bench.objective(vae).total(), bench.objective(dip).total())


def test_variant_one_leaves_the_spreads_alone(bench):
    for variant, moved in (("I", False), ("II", True)):
        system = bench.system("dipvae", {"variant": variant, "momentum": 0})
        terms = bench.objective(system)
        (terms.mean("off_diagonal") + terms.mean("diagonal")).backward()
        gradient = system.networks.head.linear.weight.grad
        assert gradient[:3].abs().sum() > 0  # rows of the means
        assert bool(gradient[3:].any()) is moved  # rows of the log-variances


def test_past_is_a_constant(bench):
    """With momentum m the second batch moves the covariance by its share w = (1 - m) / (1 - m^2) alone."""
    system = bench.system("dipvae", {"momentum": 0.5})
    bench.objective(system, bench.batch(0))
    before = system.covariance.covariance.clone()
    assert not before.requires_grad
    bench.objective(system, bench.batch(7)).mean("diagonal").backward()
    assert system.networks.head.linear.weight.grad.isfinite().all()
    assert not torch.equal(system.covariance.covariance, before)


def test_evaluation_does_not_move_the_estimate_and_saving_keeps_it(bench):
    system = bench.system("dipvae")
    bench.objective(system)
    kept = system.covariance.covariance.clone()
    system.eval()
    bench.objective(system, bench.batch(7))
    assert torch.equal(system.covariance.covariance, kept)
    other = bench.system("dipvae", seed=5)
    other.load_state_dict(system.state_dict())
    assert torch.equal(other.covariance.covariance, kept)
    assert int(other.covariance.batches) == 1
