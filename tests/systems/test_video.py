"""The video model against loops over time and factors."""

import math

import numpy as np
import pytest
import torch

from unweave.base.errors import ConfigError, ShapeError
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.systems.vae import VAE, VAEConfig
from unweave.systems.video import Transitions, Video, VideoConfig

T, FRAME, K, D = 4, (2, 4, 4), 3, 2
SMALL = {
    "factors": K,
    "dims": D,
    "transition_hidden": [5, 6],
    "inference_hidden": 7,
    "nets.kind": "dense",
    "nets.hidden": [9],
    "nets.activation": "tanh",
    "likelihood.kind": "gaussian",
    "likelihood.std": 0.5,
}


def small(settings=None, steps=T, seed=0):
    """A system in double precision whose biases are not zero, so that a forgotten one shows."""
    torch.manual_seed(seed)
    spec = DataSpec((steps, *FRAME), "unit", 20)
    system = Video(VideoConfig().override({**SMALL, **(settings or {})}), spec).double()
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return system


def clips(rows=3, steps=T, seed=0):
    return torch.rand(rows, steps, *FRAME, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def kl_normal(m, v, mean, variance):
    """KL between two normals of single numbers, means m and mean, variances v and variance."""
    return 0.5 * (math.log(variance / v) + (v + (m - mean) ** 2) / variance - 1)


def transition_by_hand(system, i, z):
    """Mean and variance of z_t^i from z_{t-1}^i, one factor, one row: layer by layer."""
    h = z
    for layer, (weight, bias) in enumerate(zip(system.transitions.weights, system.transitions.biases, strict=True)):
        h = (torch.nn.functional.selu(h) if layer else h) @ weight[i] + bias[i]
    change, log_variance = h[: len(z)], h[len(z) :]
    return (z + change if system.config.residual else change), log_variance.exp()


def bound_by_hand(system, x, noise):
    """Mean reconstruction, kl_first and kl_transition with loops over clips, time and factors."""
    groups, size = system.transitions.groups, system.transitions.size
    sums = {"reconstruction": 0.0, "kl_first": 0.0, "kl_transition": 0.0}
    net = system.inference
    leaky = torch.nn.LeakyReLU(0.2)
    for b in range(len(x)):
        mean, variance = torch.zeros(K * D).double(), torch.ones(K * D).double()
        for t in range(x.shape[1]):
            features = system.encoder(x[b, t][None])[0]
            h = torch.cat([leaky(net.frame(features)), leaky(net.mean(mean)), leaky(net.log_variance(variance.log()))])
            out = net.head(leaky(net.join(h)))
            m, v = out[: K * D], out[K * D :].exp()
            m = mean + m if system.config.residual else m
            cost = sum(kl_normal(*map(float, four)) for four in zip(m, v, mean, variance, strict=True))
            sums["kl_transition" if t else "kl_first"] += cost
            z = m + v.sqrt() * noise[t, b]
            decoded = system.decoder(z[None])[0]
            sums["reconstruction"] += sum(
                0.5 * math.log(2 * math.pi * 0.25) + (float(pixel) - float(r)) ** 2 / 0.5
                for pixel, r in zip(x[b, t].flatten(), decoded.flatten(), strict=True)
            )
            parts = [transition_by_hand(system, g, z[g * size : (g + 1) * size]) for g in range(groups)]
            mean, variance = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    return {name: value / len(x) for name, value in sums.items()}


def noise_of(rows, steps, seed):
    """The normal numbers that the trace draws: step after step, factor after factor."""
    torch.manual_seed(seed)
    draws = [[torch.randn(rows, D, dtype=torch.float64) for _ in range(K)] for _ in range(steps)]
    return torch.stack([torch.cat(step, dim=-1) for step in draws])


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("transitions", ["factored", "entangled"])
def test_bound_against_loops_over_time_and_factors(transitions, residual):
    system, x = small({"transitions": transitions, "residual": residual}), clips()
    torch.manual_seed(5)
    terms = system.objective("model", Batch.of(x), 0)
    with torch.no_grad():
        by_hand = bound_by_hand(system, x, noise_of(len(x), T, seed=5))
    for name, expected in by_hand.items():
        assert terms.mean(name).item() == pytest.approx(expected, abs=1e-9), name
    assert terms.total().item() == pytest.approx(sum(by_hand.values()), abs=1e-9)
    assert by_hand["kl_transition"] > 0.1


def test_beta_weighs_both_divergences():
    plain, weighted = small(), small({"beta": 0.25})
    torch.manual_seed(1)
    terms = plain.objective("model", Batch.of(clips()), 0)
    torch.manual_seed(1)
    total = weighted.objective("model", Batch.of(clips()), 0).total()
    expected = terms.mean("reconstruction") + 0.25 * (terms.mean("kl_first") + terms.mean("kl_transition"))
    torch.testing.assert_close(total, expected)


@pytest.mark.parametrize(("transitions", "independent"), [("factored", True), ("entangled", False)])
def test_a_factor_is_predicted_from_its_own_past_alone(transitions, independent):
    system = small({"transitions": transitions})
    z = torch.randn(5, K * D, dtype=torch.float64)
    changed = z.clone()
    changed[:, D:] += 1  # all factors but the first
    for before, after in zip(system.transitions(z), system.transitions(changed), strict=True):
        assert torch.equal(before[:, :D], after[:, :D]) is independent
        assert not torch.allclose(before[:, D:], after[:, D:])


def test_gradient_of_a_transition_comes_from_its_own_factor_only():
    system = small()
    torch.manual_seed(2)
    q = system.posterior(Batch.of(clips()))
    p = system.joint(q.as_given(x=clips()), Batch(rows=3))
    p.log_prob("factor_1[2]").sum().backward()
    for parameter in system.transitions.parameters():
        assert parameter.grad[1].abs().sum() > 0
        assert parameter.grad[0].abs().sum() == 0
        assert parameter.grad[2].abs().sum() == 0


def test_inference_reads_the_prediction_and_does_not_train_it():
    system = small()
    torch.manual_seed(2)
    q = system.posterior(Batch.of(clips()))
    q["factor_0[3]"].sum().backward()
    assert all(parameter.grad is None for parameter in system.transitions.parameters())
    assert system.inference.mean.weight.grad.abs().sum() > 0
    # the past matters: another first frame, another code of the last
    other = clips()
    other[:, 0] = 1 - other[:, 0]
    first, second = system.encode(Batch.of(clips())), system.encode(Batch.of(other))
    assert not np.allclose(first["factor_0"][:, -1], second["factor_0"][:, -1])
    # the future does not: a filter
    other = clips()
    other[:, -1] = 1 - other[:, -1]
    np.testing.assert_array_equal(system.encode(Batch.of(other))["factor_0"][:, :-1], first["factor_0"][:, :-1])


def test_every_parameter_gets_a_gradient():
    for transitions in ("factored", "entangled"):
        system = small({"transitions": transitions})
        torch.manual_seed(0)
        system.objective("model", Batch.of(clips()), 0).total().backward()
        assert all(parameter.grad.abs().sum() > 0 for parameter in system.parameters())


def test_the_baseline_differs_in_its_transitions_only():
    factored, entangled = small(), small({"transitions": "entangled"})
    assert factored.blocks == entangled.blocks
    shapes = lambda s: {n: p.shape for n, p in s.named_parameters() if not n.startswith("transitions")}  # noqa: E731
    assert shapes(factored) == shapes(entangled)
    assert entangled.transitions.weights[0].shape == (1, K * D, 5)
    assert factored.transitions.weights[0].shape == (K, D, 5)


def test_batched_transitions_are_separate_networks():
    torch.manual_seed(0)
    together = Transitions(3, 2, (4,)).double()
    z = torch.randn(2, 5, 6, dtype=torch.float64)
    mean, log_variance = together(z)
    assert mean.shape == log_variance.shape == (2, 5, 6)
    for g in range(3):
        hidden = torch.selu(z[..., 2 * g : 2 * g + 2] @ together.weights[0][g] + together.biases[0][g])
        out = hidden @ together.weights[1][g] + together.biases[1][g]
        torch.testing.assert_close(mean[..., 2 * g : 2 * g + 2], out[..., :2])
        torch.testing.assert_close(log_variance[..., 2 * g : 2 * g + 2], out[..., 2:])


@pytest.mark.parametrize("transitions", ["factored", "entangled"])
def test_known_codes_are_predicted_at_once_and_as_one_after_the_other(transitions):
    system = small({"transitions": transitions})
    torch.manual_seed(3)
    q = system.posterior(Batch.of(clips()))
    given = q.as_given(x=clips())
    at_once = system.joint(given, Batch(rows=3))
    system._predictions = lambda p, steps: []
    in_turn = system.joint(given, Batch(rows=3))
    assert at_once.names == in_turn.names
    for name in at_once.names:
        torch.testing.assert_close(at_once.site(name).log_prob, in_turn.site(name).log_prob, rtol=1e-12, atol=1e-12)
    wanted = {"inputs": list(system.parameters()), "allow_unused": True, "retain_graph": True}
    both = [torch.autograd.grad(p.log_prob().sum(), **wanted) for p in (at_once, in_turn)]
    for found, expected in zip(*both, strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_a_clip_known_in_part_is_predicted_step_by_step():
    system = small()
    given = {f"factor_{i}[0]": torch.ones(3, D, dtype=torch.float64) for i in range(K)}
    torch.manual_seed(0)
    p = system.joint(given, Batch(rows=3))
    drawn = torch.cat([p[f"factor_{i}[1]"] for i in range(K)], dim=-1)
    mean, _ = system.transitions(drawn)
    torch.testing.assert_close(p.site("factor_1[2]").distribution.mean, mean[:, D : 2 * D])
    assert not torch.equal(p["factor_0[1]"][0], p["factor_0[1]"][1])  # drawn for each row


def test_codes_of_a_wrong_size_are_told_in_one_line():
    system = small()
    with pytest.raises(ShapeError, match=r"site 'factor_0\[0\]' was given a value of shape \(3, 5\)"):
        system.joint({f"factor_{i}": torch.zeros(3, T, 5, dtype=torch.float64) for i in range(K)}, Batch(rows=3))


def test_codes_draws_and_rendering_have_the_declared_shapes():
    system = small().float()
    x = clips().float()
    codes = system.encode(Batch.of(x))
    assert [block.name for block in system.blocks] == ["factor_0", "factor_1", "factor_2"]
    for block in system.blocks:
        assert (block.shape, block.axes, block.scope) == ((T, D), ("time", "dim"), "example")
        assert codes[block.name].shape == (3, T, D)
        assert (codes.spread(block.name) > 0).all()
    assert system.render(codes).shape == (3, T, *FRAME)
    drawn = system.draw(6, seed=1)
    assert drawn["factor_2"].shape == (6, T, D)
    assert system.render(drawn).shape == (6, T, *FRAME)


def test_several_samples_go_through_both_programs():
    system, x = small(), clips()
    q = system.posterior(Batch.of(x), samples=2)
    assert q["factor_0[0]"].shape == q["factor_2[3]"].shape == (2, 3, D)
    p = system.joint(q.as_given(x=x), Batch(rows=3), samples=2)
    assert p.site("x").log_prob.shape == (2, 3)


def test_draws_follow_the_transitions():
    system = small().float()
    codes = system.draw(4000, seed=0)
    z = torch.from_numpy(np.concatenate([codes[block.name] for block in codes.blocks], axis=-1))
    assert z[:, 0].mean(0).abs().max() < 0.1
    assert (z[:, 0].std(0) - 1).abs().max() < 0.1
    with torch.no_grad():
        mean, log_variance = system.transitions(z[:, 0])
    noise = (z[:, 1] - mean) / torch.exp(log_variance / 2)
    assert noise.mean(0).abs().max() < 0.1
    assert (noise.std(0) - 1).abs().max() < 0.1


def test_prediction_begins_with_the_reconstruction():
    system = small().float()
    batch = Batch.of(clips().float())
    reconstruction = system.render(system.encode(batch))
    for steps in (0, 1, 7):
        frames = system.predict(batch, steps)
        assert frames.shape == (3, T + steps, *FRAME)
        np.testing.assert_allclose(frames[:, :T], reconstruction, atol=1e-6)
    assert system.predict(Batch.of(batch.x[:, :2]), 3).shape == (3, 5, *FRAME)  # clips of any length
    # frame T + 1 decodes the transitions' mean of the last code
    codes = system.encode(batch)
    last = torch.from_numpy(np.concatenate([codes[block.name][:, -1] for block in codes.blocks], axis=-1))
    with torch.no_grad():
        expected = system.decoder(system.transitions(last)[0])
    np.testing.assert_allclose(frames[:, T], expected.numpy(), atol=1e-5)


def test_predicted_codes_are_means_or_draws():
    system = small().float()
    batch = Batch.of(clips().float())
    mean = system.predict_codes(batch, 5)
    assert mean["factor_1"].shape == (3, T + 5, D)
    first, same, other = (system.predict_codes(batch, 5, seed=seed)["factor_1"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first[:, T], other[:, T])
    np.testing.assert_array_equal(first[:, :T], mean["factor_1"][:, :T])
    with pytest.raises(ConfigError, match="0 or more"):
        system.predict(batch, -1)


def test_posterior_draws_are_reproducible_and_vary():
    system = small().float()
    batch = Batch.of(clips().float())
    first, same, other = (system.draw_posterior(batch, seed)["factor_0"] for seed in (1, 1, 2))
    assert first.shape == (3, T, D)
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other)
    torch.manual_seed(1)
    np.testing.assert_array_equal(first[:, 2], system.posterior(batch)["factor_0[2]"].detach().numpy())


def test_a_clip_of_one_frame_is_a_vae():
    """With one frame the bound is the VAE's; the inference network is made to pass its features on."""
    system, x = small({"factors": 1}, steps=1), clips(steps=1)
    torch.manual_seed(0)
    config = VAEConfig(latent=D).override({n: v for n, v in SMALL.items() if n.split(".")[0] in ("nets", "likelihood")})
    vae = VAE(config, DataSpec(FRAME, "unit", 20)).double()
    net = system.inference

    class Features(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = system.encoder

        def forward(self, frames):
            zeros = torch.zeros(D, dtype=torch.float64)
            parts = torch.broadcast_tensors(net.frame(self.encoder(frames)), net.mean(zeros), net.log_variance(zeros))
            leaky = torch.nn.functional.leaky_relu
            return leaky(net.join(leaky(torch.cat(parts, -1), 0.2)), 0.2)

    vae.networks.encoder, vae.networks.head.linear, vae.networks.decoder = Features(), net.head, system.decoder
    torch.manual_seed(3)
    clip_terms = system.objective("model", Batch.of(x), 0)
    torch.manual_seed(3)
    frame_terms = vae.objective("model", Batch.of(x[:, 0]), 0)
    assert clip_terms["kl_transition"].abs().max() == 0
    torch.testing.assert_close(clip_terms["kl_first"], frame_terms["kl"])
    torch.testing.assert_close(clip_terms["reconstruction"], frame_terms["reconstruction"])


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian"])
def test_likelihood_of_a_clip_is_the_sum_over_its_frames(kind):
    system = small({"likelihood.kind": kind, "likelihood.std": 1.0})
    x = clips()
    q = system.posterior(Batch.of(x))
    site = system.joint(q.as_given(x=x), Batch(rows=3)).site("x")
    z = torch.stack([torch.cat([q[f"factor_{i}[{t}]"] for i in range(K)], -1) for t in range(T)], 1)
    expected = sum(system.likelihood(system.decoder(z[:, t])).log_prob(x[:, t]) for t in range(T))
    torch.testing.assert_close(site.log_prob, expected)


def test_own_networks_are_used():
    encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, 4))
    decoder = torch.nn.Sequential(torch.nn.Linear(K * D, 32), torch.nn.Unflatten(1, FRAME))
    spec = DataSpec((T, *FRAME), "unit", 20)
    system = Video(VideoConfig().override(SMALL), spec, encoder=encoder, decoder=decoder)
    assert system.render(system.encode(Batch.of(clips().float()))).shape == (3, T, *FRAME)
    assert system.encoder.module is encoder


def test_what_is_not_a_clip_is_told_in_one_line():
    with pytest.raises(ShapeError, match=r"observations of shape \(1, 8, 8\) are not clips \(T, C, H, W\)") as caught:
        Video(VideoConfig(), DataSpec((1, 8, 8), "unit", 10))
    assert "\n" not in str(caught.value)
    system = small()
    with pytest.raises(ShapeError, match="are not clips"):
        system.encode(Batch.of(clips()[:, 0]))
    with pytest.raises(ShapeError, match="frames of 2 x 4 x 4"):
        system.encode(Batch.of(torch.zeros(3, T, 1, 4, 4)))


def test_clips_of_different_lengths_are_told_in_one_line():
    system = small()
    uneven = Batch(rows=3, x=clips(), lengths=torch.tensor([4, 3, 4]))
    with pytest.raises(ShapeError, match="3 to 4 frames: cut them to one length, 3"):
        system.objective("model", uneven, 0)
    longer = Batch.of(clips(steps=6))  # all clips of a batch may be longer than the training clips
    assert torch.isfinite(system.objective("model", longer, 0).total())
