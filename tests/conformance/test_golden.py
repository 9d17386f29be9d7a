"""Every system computes what it computed before, bit for bit where the processor is one whose bits are kept."""

import copy
import importlib.util
import sys
from pathlib import Path

import pytest

from unweave.core.system import SYSTEMS

SPEC = importlib.util.spec_from_file_location("golden", Path(__file__).with_name("golden.py"))
golden = importlib.util.module_from_spec(SPEC)
sys.modules["golden"] = golden
SPEC.loader.exec_module(golden)


@pytest.mark.parametrize("name", SYSTEMS.names())
def test_nothing_that_is_computed_changed(name, tmp_path):
    assert golden.difference(golden.trained(name, tmp_path / "run"), golden.read()) == ""


def test_a_change_is_told(tmp_path):
    run, kept = golden.trained("vae", tmp_path / "run"), golden.read()
    here = {golden.machine(): {"vae": golden.digest(run)}}
    kept = {"numbers": {"vae": golden.numbers(run)}, "digests": here}
    assert golden.difference(run, kept) == ""
    other = copy.deepcopy(kept)
    other["numbers"]["vae"]["terms"]["kl"][2] *= 1.01
    assert "vae: terms kl is" in golden.difference(run, other)
    other = copy.deepcopy(kept)
    del other["numbers"]["vae"]["codes"]["z"]
    assert golden.difference(run, other) == "vae: only on one side: codes z"
    weight = next(run.system().parameters()).data
    weight.view(-1)[0] = weight.view(-1)[0].nextafter(weight.new_tensor(9.0))
    assert golden.difference(run, kept) == "vae: some bits differ, by less than 0.001 of any number"
    assert "no kept numbers" in golden.difference(run, {"numbers": {}, "digests": {}})
