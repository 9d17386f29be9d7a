"""What every system must do, checked for each one the registry finds.

Systems are built at a small size on a small data set; a system that needs more than observations brings what it needs
through its own test. A new file in `systems/` is tested here the moment it exists.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from unweave.base.schedule import at_step
from unweave.batches.assemble import assemble
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.core.codes import Codes
from unweave.core.system import SYSTEMS
from unweave.data import from_arrays
from unweave.operations import OPERATIONS
from unweave.runs import Run, train

NAMES = SYSTEMS.names()
SMALL = {"nets.kind": "dense", "nets.hidden": [16], "training.steps": 4, "training.batch_size": 8}
CLIPS = ("video",)  # systems of clips; all others are built on images
FACTORS = {"group": "a", "label": "a"}  # settings that name a factor, for the systems that have them


def small_data(name, size=64):
    """Images or clips with two factors of four values each."""
    shape = (3, 1, 8, 8) if name in CLIPS else (1, 8, 8)
    x = np.random.default_rng(0).random((size, *shape), dtype=np.float32)
    factors = np.stack([np.arange(size) % 4, np.arange(size) // (size // 4)], 1)
    return from_arrays(x, factors=factors, names=("a", "b"), values="unit")


def small_spec(name):
    data = small_data(name)
    return replace(data.spec, labels=data.factors.counts())


def small_settings(name):
    fields = SYSTEMS[name].config_class.model_fields
    return {**SMALL, **{field: factor for field, factor in FACTORS.items() if field in fields}}


def small_config(cls):
    return cls.config_class().override(small_settings(cls.name()))


def small_system(name, seed=0):
    torch.manual_seed(seed)
    cls = SYSTEMS[name]
    return cls(small_config(cls), small_spec(name))


def small_batch(system, seed=0, rows=8):
    """With what the system reads besides: groups, and labels on every other row."""
    data = small_data(system.name())
    usable = {name: np.arange(len(data)) % 2 == 0 for name in system.reads.labels}
    draw = lambda start: assemble(data, np.arange(start, start + rows), system.reads, usable)  # noqa: E731
    extra = {name: draw(rows * (number + 1)) for number, name in enumerate(system.extra_batches)}
    return replace(draw(seed), extra=extra)


@pytest.mark.parametrize("name", NAMES)
def test_card_and_settings_are_complete(name):
    cls = SYSTEMS[name]
    assert cls.card.summary
    assert cls.card.paper
    assert cls.card.bibtex.startswith("@")
    assert "quick" in cls.config_class.presets
    for preset in cls.config_class.presets:
        config = cls.config_class.preset(preset)
        assert cls.config_class.from_dict(config.to_dict()) == config
    for field, info in cls.config_class.model_fields.items():
        assert info.description, f"setting {field} of {name} has no docstring beneath it"


@pytest.mark.parametrize("name", NAMES)
def test_is_final_and_inherits_from_no_other_paper(name):
    ancestors = [base for base in SYSTEMS[name].__mro__[1:] if base.__module__.startswith("unweave.systems")]
    assert ancestors == []


@pytest.mark.parametrize("name", NAMES)
def test_terms_sum_to_the_loss(name):
    system = small_system(name)
    for player in system.players():
        torch.manual_seed(1)
        terms = system.objective(player.name, small_batch(system), 3)
        by_hand = sum(at_step(terms.weights[term], 3) * terms[term].double().mean() for term in terms)
        torch.testing.assert_close(terms.total(3).double(), by_hand, rtol=1e-5, atol=1e-5)
        assert terms.total(3).requires_grad


@pytest.mark.parametrize("name", NAMES)
def test_each_players_gradient_reaches_its_own_parameters_only(name):
    from unweave.core.system import only_requires_grad

    system = small_system(name)
    for player in system.players():
        system.zero_grad(set_to_none=True)
        own = {id(parameter) for parameter in player.parameters()}
        with only_requires_grad(system, player):
            system.objective(player.name, small_batch(system), 1).total(1).backward()
        for parameter_name, parameter in system.named_parameters():
            if id(parameter) in own:
                assert parameter.grad is not None, f"{parameter_name} gets no gradient from {player.name}"
                assert torch.isfinite(parameter.grad).all()
            else:
                assert parameter.grad is None, f"{parameter_name} is not {player.name}'s and gets its gradient"


@pytest.mark.parametrize("name", NAMES)
def test_players_share_out_all_parameters(name):
    system = small_system(name)
    owned = [id(parameter) for player in system.players() for parameter in player.parameters()]
    assert sorted(owned) == sorted(id(parameter) for parameter in system.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_gives_same_loss_and_another_seed_another(name):
    def loss(noise):
        system = small_system(name)
        torch.manual_seed(noise)
        return [system.objective(p.name, small_batch(system), 0).total(0).item() for p in system.players()]

    assert loss(5) == loss(5)
    assert loss(5) != loss(6)


@pytest.mark.parametrize("name", [n for n in NAMES if issubclass(SYSTEMS[n], Encodes)])
def test_codes_match_the_declared_blocks(name):
    system = small_system(name)
    codes = system.encode(small_batch(system, rows=5))
    assert isinstance(codes, Codes)
    assert codes.blocks == system.blocks
    for block in system.blocks:
        assert codes[block.name].shape == (5, *block.shape)
        assert np.isfinite(codes[block.name]).all()
        if block.kind == "simplex":
            np.testing.assert_allclose(codes[block.name].sum(-1), 1, rtol=1e-5)
        if block.kind == "real":
            assert (codes.spread(block.name) > 0).all()
    again = system.encode(small_batch(system, rows=5))
    np.testing.assert_array_equal(codes.flat()[0], again.flat()[0])


@pytest.mark.parametrize("name", [n for n in NAMES if issubclass(SYSTEMS[n], Decodes)])
def test_rendering_gives_observations(name):
    system = small_system(name)
    codes = system.encode(small_batch(system, rows=5))
    images = system.render(codes)
    assert images.shape == (5, *system.spec.shape)
    assert images.min() >= 0
    assert images.max() <= 1
    # each row depends on its own code only
    np.testing.assert_allclose(system.render(codes.take([3, 1]))[0], images[3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in NAMES if issubclass(SYSTEMS[n], Samples)])
def test_draws_from_the_prior_are_reproducible(name):
    system = small_system(name)
    first, second, other = system.draw(6, seed=1), system.draw(6, seed=1), system.draw(6, seed=2)
    np.testing.assert_array_equal(first.flat()[0], second.flat()[0])
    assert not np.array_equal(first.flat()[0], other.flat()[0])
    assert system.render(first).shape == (6, *system.spec.shape)


@pytest.mark.parametrize("name", NAMES)
def test_trains_saves_loads_scores_and_operates(name, tmp_path):
    data = small_data(name)
    run = train(name, data, settings=small_settings(name), run=tmp_path / "run", log_every=1, progress=False, threads=1)
    codes = run.encode_split("all")
    reopened = Run.open(tmp_path / "run", data=data)
    np.testing.assert_array_equal(reopened.encode_split("all").flat()[0], codes.flat()[0])
    log = reopened.log()
    assert log["step"].tolist() == [1, 2, 3, 4]
    assert all(np.isfinite(column).all() for column in log.values())
    assert reopened.evaluate(["mig", "information"])["mig"].value >= 0
    for operation in OPERATIONS:
        if operation.applies_to(run.system()):
            shown = reopened.operate(operation.name)
            assert shown.images.ndim in (5, 6)  # a grid of pictures, or of clips
            cells = shown.images.reshape(*shown.images.shape[:2], -1)
            empty = np.isnan(cells).all(axis=2)  # a cell may be left blank, never be half broken
            assert np.isfinite(shown.images[~empty]).all()
            assert not empty.all()


@pytest.mark.parametrize("name", NAMES)
def test_docs_table_names_what_is_logged(name, root, tmp_path):
    page = (root / "docs" / "systems" / f"{name}.md").read_text(encoding="utf-8")
    run = train(name, small_data(name), settings=small_settings(name), run=tmp_path / "run", progress=False, threads=1)
    logged = set(run.log()) - {"step", "seconds"}
    section = page.split("## The objective", 1)[1].split("\n## ", 1)[0]
    documented = set(re.findall(r"^\| `([\w/]+)`", section, re.MULTILINE))
    assert documented == logged


@pytest.mark.parametrize("name", NAMES)
def test_has_a_test_of_its_own(name, root):
    assert (root / "tests" / "systems" / f"test_{name}.py").exists()


@pytest.mark.parametrize("name", NAMES)
def test_docs_page_runs(name, root, run_page):
    assert run_page(root / "docs" / "systems" / f"{name}.md") >= 1
