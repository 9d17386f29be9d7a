"""A system in a Lightning trainer moves as it does in `unweave.train`."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import torch

from unweave.base.seeding import derive_seed
from unweave.core.system import SYSTEMS
from unweave.data import load
from unweave.runs import train
from unweave.runs.loop import NOISE, WEIGHTS
from unweave.runs.training import _batches

SETTINGS = {"nets.kind": "dense", "nets.hidden": [16], "latent": 3, "training.steps": 7, "training.batch_size": 16}


@pytest.mark.parametrize("name", ["betavae", "factorvae"])  # one player, two players
def test_the_same_weights_as_our_own_loop(tmp_path, name):
    pl = pytest.importorskip("lightning.pytorch")
    from unweave.lightning import LightningSystem

    run = train(name, load("digits"), settings=SETTINGS, run=tmp_path / "run", progress=False, threads=1, device="cpu")
    torch.manual_seed(derive_seed(run.manifest.seed, WEIGHTS))
    system = SYSTEMS[name](run.system().config, run.system().spec)
    system.training_seed = derive_seed(run.manifest.seed, NOISE)
    batches = _batches(run.dataset(), run.split_rows()["train"], system, run.manifest, start=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = pl.Trainer(
            max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
        )  # fmt: skip
        trainer.fit(LightningSystem(system), batches)
    assert system.step == 7
    assert "reconstruction" in "".join(trainer.callback_metrics)
    expected = run.system().state_dict()
    for key, value in system.state_dict().items():
        torch.testing.assert_close(value, expected[key], rtol=1e-5, atol=1e-7)


def test_training_does_without_it():
    code = "import sys, unweave.runs.training, unweave.systems.betavae; print('lightning' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
