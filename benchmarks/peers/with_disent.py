"""disent's frameworks in Lightning's trainer, as its documentation has it. The networks are the common ones.

What differs from the others is listed in benchmarks/README.md. disent has no FactorVAE.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import common
import lightning
import numpy as np
import torch
from common import Clock, Task, report, squares, task
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

# After lightning, whose metrics would take the stand-in for the real thing.
sys.path.insert(0, str(Path(__file__).resolve().parent / "standin"))

from disent.frameworks.vae import BetaTcVae, BetaVae, Vae
from disent.model import AutoEncoder, DisentDecoder, DisentEncoder


class Encoder(DisentEncoder):
    def __init__(self, made: Task):
        super().__init__(x_shape=(1, made.side, made.side), z_size=made.latent, z_multiplier=2)
        self.layers = common.encoder(made)

    def encode(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Decoder(DisentDecoder):
    def __init__(self, made: Task):
        super().__init__(x_shape=(1, made.side, made.side), z_size=made.latent)
        self.layers = common.decoder(made)

    def decode(self, z: Tensor) -> Tensor:
        return self.layers(z)


class Images(Dataset):
    """Bytes that become floats a batch at a time, in the form disent's frameworks take."""

    def __init__(self, images: np.ndarray):
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitems__(self, rows: list[int]) -> dict[str, Any]:
        return {"x_targ": (torch.from_numpy(self.images[rows]).float().div_(255),)}


def framework(made: Task) -> Vae:
    model = AutoEncoder(Encoder(made), Decoder(made))
    shared = {
        "recon_loss": "bce",
        "loss_reduction": "mean_sum",
        "optimizer": "adam",
        "optimizer_kwargs": {"lr": common.LR},
    }
    if made.model == "mnist":
        return Vae(model, Vae.cfg(**shared))
    kind = BetaTcVae if made.model == "tcvae" else BetaVae
    return kind(model, kind.cfg(**shared, beta=common.BETA))


def run(made: Task) -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # about few worker processes, for one
    loader = DataLoader(
        Images(squares(common.ROWS, made.side)),
        made.batch,
        shuffle=True,
        drop_last=True,
        collate_fn=lambda batch: batch,
    )
    clock = Clock(made)
    clock.watch()
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_steps=made.total,
            max_epochs=-1,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(framework(made), loader)
    report(made, clock, loss=float(trainer.callback_metrics["loss"]), version=version("disent"))


if __name__ == "__main__":
    run(task("disent", ("betavae", "tcvae", "mnist")))
