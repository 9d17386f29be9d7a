"""The folders import in one direction only, and light packages stay light."""

import ast
import subprocess
import sys

import pytest

# who may import whom, from the design; every package may import itself
ALLOWED = {
    "base": set(),
    "core": {"base"},
    "objectives": {"base", "core"},
    "models": {"base", "core", "batches", "objectives", "nets"},
    "nets": {"base", "core"},
    "batches": {"base", "core"},
    "data": {"base", "core"},
    "metrics": {"base", "core"},
    "knobs": {"base", "core"},
    "media": {"base", "core"},
    "operations": {"base", "core", "knobs", "media"},
    "systems": {"base", "core", "batches", "objectives", "nets", "models"},
    "runs": {"base", "batches", "knobs", "media", "core", "data", "metrics", "operations", "report"},
    "studies": {
        "base",
        "batches",
        "knobs",
        "media",
        "core",
        "objectives",
        "nets",
        "models",
        "data",
        "metrics",
        "operations",
        "report",
        "runs",
        "systems",
    },
    "explorer": {"base", "knobs", "media", "core", "data", "metrics", "operations", "report", "runs"},
    "report": {"base", "knobs", "media", "core", "data", "metrics", "operations"},
}


def imported_modules(path):
    """Names of our modules that a file imports; not those it reads for types only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name for name in names if name.startswith("unweave."))


def imported_packages(path):
    return (name.split(".")[1] for name in imported_modules(path))


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_folders_import_downwards_only(root, package):
    for path in sorted((root / "src" / "unweave" / package).rglob("*.py")):
        wrong = set(imported_packages(path)) - ALLOWED[package] - {package}
        assert not wrong, f"{path.name} in {package}/ imports {', '.join(sorted(wrong))}"


def test_no_folder_imports_the_underscore_modules_of_another(root):
    """What several folders share has an open name; `_module` is its own folder's business."""
    for path in sorted((root / "src" / "unweave").rglob("*.py")):
        folders = path.relative_to(root / "src" / "unweave").parts[:-1]
        for name in imported_modules(path):
            parts = name.split(".")[1:]
            private = any(part.startswith("_") and part != "__init__" for part in parts)
            assert not private or (folders and parts[0] == folders[0]), f"{path.name} imports {name}"


def test_no_folder_imports_in_a_circle():
    left = dict(ALLOWED)
    while left:
        free = [folder for folder, others in left.items() if not others & set(left)]
        assert free, f"each of these needs another one of them: {', '.join(sorted(left))}"
        left = {folder: others for folder, others in left.items() if folder not in free}


def test_every_folder_is_covered(root):
    folders = {path.parent.name for path in (root / "src" / "unweave").glob("*/__init__.py")}
    assert folders == set(ALLOWED)


@pytest.mark.parametrize("package", ["unweave", "unweave.metrics", "unweave.data", "unweave.operations", "unweave.cli"])
def test_importing_is_light(package):
    heavy = ("torch", "lightning", "sklearn", "matplotlib")
    code = f"import sys, {package}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
