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
    "models": {"base", "core", "objectives", "nets"},
    "nets": {"base", "core"},
    "data": {"base", "core"},
    "metrics": {"base", "core"},
    "operations": {"base", "core"},
    "systems": {"base", "core", "objectives", "nets", "models"},
    "runs": {"base", "core", "data", "metrics", "operations", "report"},
    "studies": {
        "base",
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
    "explorer": {"base", "core", "data", "metrics", "operations", "report", "runs"},
    "report": {"base", "core", "data", "metrics", "operations", "runs"},
}


def imported_packages(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "unweave" and len(parts) > 1:
                yield parts[1]


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_folders_import_downwards_only(root, package):
    for path in sorted((root / "src" / "unweave" / package).rglob("*.py")):
        wrong = set(imported_packages(path)) - ALLOWED[package] - {package}
        assert not wrong, f"{path.name} in {package}/ imports {', '.join(sorted(wrong))}"


def test_every_folder_is_covered(root):
    folders = {path.parent.name for path in (root / "src" / "unweave").glob("*/__init__.py")}
    assert folders == set(ALLOWED)


@pytest.mark.parametrize("package", ["unweave", "unweave.metrics", "unweave.data", "unweave.operations", "unweave.cli"])
def test_importing_is_light(package):
    heavy = ("torch", "lightning", "sklearn", "matplotlib")
    code = f"import sys, {package}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
