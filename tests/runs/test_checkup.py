"""The look at a run's end: right numbers for codes that carry something and codes that do not, said and kept."""

import json
import math

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from unweave.base.errors import RunError
from unweave.cli import cli
from unweave.core.batch import Batch
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.dataspec import DataSpec
from unweave.core.system import SYSTEMS
from unweave.data import from_arrays
from unweave.report import build
from unweave.runs import Run, resume, train
from unweave.runs.checkup import FILE, USED, Checkup, examine

SMALL = {"nets.kind": "dense", "nets.hidden": [16], "training.steps": 4, "training.batch_size": 8}


def built(name, settings=None, spec=None):
    torch.manual_seed(0)
    cls = SYSTEMS[name]
    spec = spec or DataSpec((1, 4, 4), "unit", 100, labels={"digit": 3})
    return cls(cls.config_class().override({"nets.hidden": [16], **(settings or {})}), spec)


def images(rows=12, shape=(1, 4, 4)):
    return torch.rand(rows, *shape, generator=torch.Generator().manual_seed(1))


def louder(system, words=("head",), by=6.0):
    with torch.no_grad():
        for name, parameter in system.named_parameters():
            if any(word in name for word in words):
                parameter.mul_(by)
    return system


@torch.no_grad()
def test_nats_and_errors_are_those_by_hand():
    system, x = louder(built("vae", {"latent": 3})), images()
    found = examine(system, [Batch.of(x[:8]), Batch.of(x[8:])])
    mean, log_variance = system.networks.head.linear(system.networks.encoder(x)).chunk(2, -1)
    decoded = torch.sigmoid(system.networks.decoder(mean))
    for d in range(3):
        by_row = [
            0.5 * (float(m) ** 2 + math.exp(v) - 1 - float(v))
            for m, v in zip(mean[:, d], log_variance[:, d], strict=True)
        ]
        assert found.nats[f"z[{d}]"] == pytest.approx(np.mean(by_row), rel=1e-4)
    assert found.mse == pytest.approx(float(((decoded - x) ** 2).mean()), rel=1e-5)
    assert found.mean_mse == pytest.approx(float(x.var(dim=0, correction=0).mean()), rel=1e-5)
    assert found.used == sum(value > USED for value in found.nats.values())
    assert found.rows == 12
    other = examine(system, [Batch.of(x)], mean=torch.zeros(1, 4, 4))
    assert other.mean_mse == pytest.approx(float((x**2).mean()), rel=1e-5)


@torch.no_grad()
def test_a_category_carries_its_information():
    """A category that is always the same carries nothing, however far it is from the prior."""
    x = images()
    system = louder(built("hfvae", {"blocks": "kind=concrete(3), style=normal(2)"}), ("heads.kind",), 40.0)
    q = system.posterior(Batch.of(x), centred=True)["kind"].double()
    entropy = -(q.clamp(min=1e-12) * q.clamp(min=1e-12).log()).sum(-1).mean()
    whole = q.mean(0)
    by_hand = float(-(whole * whole.log()).sum() - entropy)
    found = examine(system, [Batch.of(x)])
    assert found.nats["kind"] == pytest.approx(by_hand, abs=1e-5)
    assert set(found.nats) == {"kind", "style[0]", "style[1]"}
    system.heads["kind"].linear.weight.zero_()
    system.heads["kind"].linear.bias.copy_(torch.tensor([50.0, 0.0, 0.0]))
    assert examine(system, [Batch.of(x)]).nats["kind"] == pytest.approx(0, abs=1e-5)


@torch.no_grad()
def test_a_dimension_of_a_clip_counts_once_for_all_its_steps():
    spec = DataSpec((4, 1, 8, 8), "unit", 100)
    system = built("video", {"dims": 3, "transition_hidden": [8], "inference_hidden": 8}, spec)
    batch = Batch.of(images(6, spec.shape))
    found = examine(system, [batch])
    assert set(found.nats) == {f"factor_{factor}[{d}]" for factor in range(2) for d in range(3)}
    q = system.posterior(batch, centred=True)
    p = system.joint(q.as_given(x=batch.observations), batch, centred=True)
    total = 0.0
    for t in range(4):
        mine, prior = (trace.site(f"factor_1[{t}]").distribution.base_dist for trace in (q, p))
        total += float(torch.distributions.kl_divergence(mine, prior)[:, 2].mean())
    assert found.nats["factor_1[2]"] == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("settings", [{}, {"content_draws": "group"}, {"accumulate": "mixture"}])
@torch.no_grad()
def test_groups_are_looked_at_as_groups(settings):
    system = louder(built("mlvae", {"content": 2, "style": 2, **settings}))
    batch = Batch(rows=12, x=images(), group=torch.arange(12) // 4)
    found = examine(system, [batch])
    assert set(found.nats) == {"content[0]", "content[1]", "style[0]", "style[1]"}
    if "accumulate" not in settings:
        q = system.posterior(batch, centred=True).site("content").distribution
        by_hand = 0.5 * (q.mean**2 + q.variance - 1 - q.variance.log())
        assert found.nats["content[1]"] == pytest.approx(float(by_hand.mean(0)[1]), rel=1e-4)
    assert all(math.isfinite(value) and value >= 0 for value in found.nats.values())


def test_looking_changes_nothing():
    system = built("dipvae", {"latent": 3}).train()
    before = {name: value.clone() for name, value in system.state_dict().items()}
    state = torch.get_rng_state()
    examine(system, [Batch.of(images())])
    assert system.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in system.state_dict().items())


def test_words_have_no_squared_error():
    spec = DataSpec((5,), "tokens", 100, levels=7)
    cls = SYSTEMS["vae"]
    encoder = torch.nn.Linear(5, 4)
    decoder = torch.nn.Sequential(torch.nn.Linear(3, 35))
    system = cls(cls.config_class(latent=3), spec, encoder=encoder, decoder=decoder)
    found = examine(system, [Batch.of(torch.randint(0, 7, (6, 5)).float())])
    assert found.mse is None
    assert not found.blind
    assert "squared error" not in found.told


def test_what_cannot_be_looked_at_is_left_alone():
    class Neither:
        pass

    assert not isinstance(Neither(), (Encodes, Decodes))
    assert examine(Neither(), []) is None


@pytest.mark.parametrize(
    ("nats", "mse", "collapsed"),
    [
        ({"a": 1.0, "b": 0.2, "c": 0.0}, 0.5, False),
        ({"a": 1.0, "b": 0.05, "c": 0.0}, 0.5, True),  # one dimension of three
        ({"a": 1.0}, 0.5, False),  # one of one
        ({"a": 0.0}, 0.5, True),
        ({"a": 1.0, "b": 0.2}, 1.0, True),  # no better than the mean
        ({"a": 1.0, "b": 0.2}, math.nan, True),
    ],
)
def test_when_a_run_counts_as_collapsed(nats, mse, collapsed):
    found = Checkup(step=1, rows=10, nats=nats, mse=mse, mean_mse=1.0, advice="try")
    assert found.collapsed == collapsed
    assert bool(found.warning) == collapsed


# In a run ------------------------------------------------------------------------------------------------------------


def small_data():
    rng = np.random.default_rng(0)
    return from_arrays(rng.random((60, 1, 8, 8), dtype=np.float32))


def collapsed_run(folder, **more):
    return train("betavae", small_data(), settings={**SMALL, "beta": 400}, run=folder, threads=1, **more)


def test_a_collapsed_run_says_so_with_numbers_and_what_to_try(tmp_path, capsys):
    run = collapsed_run(tmp_path / "run")
    told = capsys.readouterr().err.splitlines()[-2:]
    found = run.checkup()
    assert found.used < 2
    assert "collapsed" in told[0]
    assert f"{found.used} of 10 dimensions" in told[0]
    assert f"{found.mean_mse:.3g}" in told[0]
    assert "beta=100 (it is 400.0)" in told[1]
    assert "training.steps=12 (it is 4)" in told[1]
    assert "likelihood.kind=gaussian" in told[1]
    assert found == Run.open(run.path, data=small_data()).checkup()


def test_without_a_progress_bar_nothing_is_said_and_all_is_kept(tmp_path, capsys):
    run = collapsed_run(tmp_path / "run", progress=False)
    assert capsys.readouterr().err == ""
    assert run.checkup().collapsed


def test_a_run_that_is_alive_says_nothing(tmp_path, capsys):
    rng = np.random.default_rng(0)
    codes, mix = rng.normal(size=(400, 2)), rng.normal(size=(2, 20))
    data = from_arrays((codes @ mix).astype(np.float32), values="real")
    settings = {"nets.hidden": [32], "training.steps": 300, "latent": 3}
    run = train("vae", data, settings=settings, run=tmp_path / "run", threads=1)
    assert "collapsed" not in capsys.readouterr().err
    found = run.checkup()
    assert found.used >= 2
    assert found.mse < 0.3 * found.mean_mse
    assert "collapsed" not in run.report().read_text(encoding="utf-8").replace("p.collapsed", "")


def test_the_command_says_it_once_with_a_bar_and_without(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["train", "vae", "--data", "digits", "--threads", "1"]
    words += [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    for quiet in ([], ["--quiet"]):
        result = CliRunner().invoke(cli, [*words, *quiet])
        assert result.exit_code == 0
        assert result.stderr.count("collapsed") == 1


def test_more_training_looks_again(tmp_path):
    run = collapsed_run(tmp_path / "run", progress=False)
    again = resume(run.path, steps=6, data=small_data(), progress=False)
    assert again.checkup().step == 6
    assert run.checkup() is None  # it still has the weights of five steps
    record = json.loads((run.path / FILE).read_text())
    (run.path / FILE).write_text(json.dumps({**record, "step": 5}))
    assert again.checkup() is None  # of other weights
    (run.path / FILE).write_text("{")
    with pytest.raises(RunError, match="damaged"):
        again.checkup()
    (run.path / FILE).unlink()
    assert again.checkup() is None


def test_the_report_shows_it(tmp_path):
    run = collapsed_run(tmp_path / "run", progress=False)
    page = build.build_report(run)
    assert "this run collapsed" in page
    assert "beta=100" in page
