"""Every operation that the registry finds: documented, typed, deterministic, savable, and strict about names."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import toy_blobs
from unweave.base.config import Config
from unweave.base.errors import UnknownNameError, UnweaveError
from unweave.core.capabilities import Capability, capabilities
from unweave.media import Shown, save_gif, save_png
from unweave.operations import OPERATIONS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "operations"
NAMES = OPERATIONS.names()


SYSTEMS = {
    "grey": ("Blobs", {}),
    "colour": ("Blobs", {"channels": 3, "side": 32}),
    "vector": ("Blobs", {"vector": True}),
    "clips": ("Clips", {"side": 24}),
}


@pytest.fixture(params=SYSTEMS)
def system(request):
    return _system(request.param)


def _system(kind: str):
    cls, settings = SYSTEMS[kind]
    return getattr(toy_blobs, cls)(**settings)


def _suited(name: str):
    """A system that the operation applies to."""
    return next(system for system in map(_system, SYSTEMS) if OPERATIONS[name].applies_to(system))


def run(name: str, system, **params) -> Shown:
    operation = OPERATIONS[name]
    return operation(system, system.inputs(operation.default_inputs), operation.params(**params))


def names_fields(name: str) -> list[str]:
    """Parameters that take names of blocks or dimensions."""
    fields = OPERATIONS[name].params.model_fields
    return [field for field, info in fields.items() if info.annotation == tuple[str, ...]]


def test_the_registry_finds_operations():
    assert {"traverse", "reconstruct", "interpolate", "swap", "sample"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_have_defaults_types_and_docs(name):
    params = OPERATIONS[name].params
    assert issubclass(params, Config)
    assert params() == params(**params().to_dict())
    for field, info in params.model_fields.items():
        assert not info.is_required(), f"{field} of {name} has no default"
        assert info.description, f"{field} of {name} has no docstring"
        assert field not in ("rows", "out", "run"), f"{field} of {name} is what the command line calls something else"


@pytest.mark.parametrize("name", NAMES)
def test_has_a_page_that_names_its_parameters(name):
    page = PAGES / f"{name}.md"
    assert page.exists(), f"write docs/operations/{name}.md"
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    for field in OPERATIONS[name].params.model_fields:
        assert f"`{field}`" in text, f"docs/operations/{name}.md does not explain {field}"
    assert f"]({name}.md)" in (PAGES / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_documented_defaults_are_the_defaults(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    defaults = OPERATIONS[name].params().to_dict()
    for fields, values in re.findall(r"^\| (`[^|]*) \| ([^|]*) \|", text, re.MULTILINE):
        named = re.findall(r"`(\w+)`", fields)
        written = [value.strip(" `") for value in values.split(",")]
        for field, value in zip(named, written, strict=True):
            shown = defaults[field] if defaults[field] not in ([], ()) else "none"
            assert value == (f"{shown:g}" if isinstance(shown, float) else str(shown)), f"{field} of {name}"


def pages():
    return sorted(page.name for page in PAGES.glob("*.md"))


@pytest.mark.parametrize("page", pages())
def test_pages_run(page, run_page, monkeypatch):
    # A page may register an operation of its own; it must not stay for other tests.
    monkeypatch.setattr(OPERATIONS, "_extra", {})
    assert run_page(PAGES / page) >= 1


@pytest.mark.parametrize("name", NAMES)
def test_summary_is_one_sentence(name):
    operation = OPERATIONS[name]
    assert operation.summary.endswith(".")
    assert operation.needs
    assert all(issubclass(need, Capability) for need in operation.needs)
    assert operation.default_inputs >= operation.inputs


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_describes_its_grid(name, system):
    operation = OPERATIONS[name]
    assert set(operation.needs) <= set(capabilities(system))
    if not operation.applies_to(system):
        with pytest.raises(UnweaveError, match=f"{name} needs clips"):
            run(name, system)
        return
    shown = run(name, system)
    assert shown.title
    assert shown.images.shape[:2] == (len(shown.rows), len(shown.columns))
    frames = 1 if shown.moves == "forward" else 0  # columns are time: a cell is a frame
    assert shown.images.shape[2:] == system.spec.shape[frames:]
    cells = shown.images.reshape(len(shown.rows), len(shown.columns), -1)
    empty = np.isnan(cells).all(axis=2)
    assert np.isfinite(cells[~empty]).all()
    assert not empty.all(axis=1).any()


@pytest.mark.parametrize("name", NAMES)
def test_deterministic(name):
    system = _suited(name)
    one, two = run(name, system), run(name, system)
    np.testing.assert_array_equal(one.images, two.images)
    assert (one.title, one.rows, one.columns) == (two.title, two.rows, two.columns)


@pytest.mark.parametrize("name", NAMES)
def test_files_open_again_and_are_deterministic(name, system, tmp_path):
    if not OPERATIONS[name].applies_to(system):
        pytest.skip(f"{name} needs clips")
    shown = run(name, system)
    path = save_png(shown, tmp_path / "grid.png", system.spec)
    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG"
        assert image.width > 24 * len(shown.columns)
        assert image.height > 24 * len(shown.rows)
    assert path.read_bytes() == save_png(shown, tmp_path / "again.png", system.spec).read_bytes()
    if shown.plays:
        path = save_gif(shown, tmp_path / "grid.gif", system.spec)
        frames = len(shown.columns) if shown.moves == "forward" else max(1, 2 * len(shown.columns) - 2)
        with Image.open(path) as image:
            assert image.format == "GIF"
            assert image.n_frames == (system.spec.shape[0] if shown.has_clips else frames)
            image.seek(image.n_frames - 1)
        assert path.read_bytes() == save_gif(shown, tmp_path / "again.gif", system.spec).read_bytes()
    assert not [left for left in tmp_path.iterdir() if left.suffix == ".partial"]


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in NAMES for field in names_fields(name)])
def test_unknown_names_are_refused(name, field):
    with pytest.raises(UnknownNameError, match=r"unknown block or dimension 'shapee'.*'shape'"):
        run(name, _suited(name), **{field: ("shapee",)})


@pytest.mark.parametrize("name", NAMES)
def test_unknown_parameters_and_missing_capabilities_are_refused(name):
    operation = OPERATIONS[name]
    with pytest.raises(UnweaveError, match="unknown setting"):
        operation.params(nonsense=1)
    with pytest.raises(UnweaveError, match=f"{name} needs a system"):
        operation(object(), _suited(name).inputs(operation.default_inputs))
    assert isinstance(operation.params.model_json_schema(), dict)  # what a web form is made of


@pytest.mark.parametrize("name", [name for name in NAMES if OPERATIONS[name].inputs])
def test_too_few_inputs_are_refused(name):
    operation = OPERATIONS[name]
    system = _suited(name)
    with pytest.raises(UnweaveError, match=f"needs at least {operation.inputs} inputs"):
        operation(system, system.inputs(operation.inputs - 1))
