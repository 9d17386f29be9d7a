"""The package gives operations by name, whichever module was imported first, and imports nothing heavy."""

import subprocess
import sys

import pytest

CASES = {
    "operation, then module": "from unweave.operations import swap; import unweave.operations.swap",
    "module, then operation": "import unweave.operations.swap",
    "registry first": "from unweave.operations import OPERATIONS; OPERATIONS.names()",
}


@pytest.mark.parametrize("code", CASES.values(), ids=CASES.keys())
def test_the_name_is_the_operation(code):
    check = (
        f"{code}\nimport sys, unweave.operations as package\n"
        "from unweave.operations import Operation, swap\nfrom unweave.operations.swap import SwapParams\n"
        "assert isinstance(swap, Operation) and isinstance(package.swap, Operation), swap\n"
        "assert swap.params is SwapParams\nassert 'torch' not in sys.modules and 'PIL' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_unknown_attributes_are_attribute_errors():
    import unweave.operations

    with pytest.raises(AttributeError, match="no attribute 'shuffle'"):
        _ = unweave.operations.shuffle
    assert {"traverse", "OPERATIONS", "Inputs"} <= set(dir(unweave.operations))
