"""pythae through its trainers: BaseTrainer, and AdversarialTrainer for FactorVAE. The networks are the common ones.

What differs from the others is listed in benchmarks/README.md.
"""

from __future__ import annotations

import tempfile
from importlib.metadata import version

import common
import torch
from common import Clock, Done, Task, report, squares, task
from pythae.data.datasets import BaseDataset
from pythae.models import (
    VAE,
    BetaTCVAE,
    BetaTCVAEConfig,
    BetaVAE,
    BetaVAEConfig,
    FactorVAE,
    FactorVAEConfig,
    VAEConfig,
)
from pythae.models.base.base_utils import ModelOutput
from pythae.models.nn import BaseDecoder, BaseDiscriminator, BaseEncoder
from pythae.trainers import AdversarialTrainer, AdversarialTrainerConfig, BaseTrainer, BaseTrainerConfig
from torch import Tensor


class Encoder(BaseEncoder):
    def __init__(self, made: Task):
        super().__init__()
        self.layers = common.encoder(made)

    def forward(self, x: Tensor) -> ModelOutput:
        mean, log_variance = self.layers(x).chunk(2, dim=1)
        return ModelOutput(embedding=mean, log_covariance=log_variance)


class Decoder(BaseDecoder):
    """Probabilities: pythae's cross-entropy takes no logits."""

    def __init__(self, made: Task):
        super().__init__()
        self.layers = common.decoder(made)

    def forward(self, z: Tensor) -> ModelOutput:
        return ModelOutput(reconstruction=torch.sigmoid(self.layers(z)))


class Discriminator(BaseDiscriminator):
    """Six hidden layers, where pythae's own has five."""

    def __init__(self, made: Task):
        super().__init__()
        self.layers = common.discriminator(made)

    def forward(self, z: Tensor) -> Tensor:
        return self.layers(z)


def trainer(made: Task, data: BaseDataset, folder: str) -> BaseTrainer:
    networks = {"encoder": Encoder(made), "decoder": Decoder(made)}
    shared = {
        "input_dim": (1, made.side, made.side),
        "latent_dim": made.latent,
        "reconstruction_loss": "bce",
    }
    epochs = {"output_dir": folder, "num_epochs": 10**6, "no_cuda": True}
    if made.model == "factorvae":
        model = FactorVAE(FactorVAEConfig(**shared, gamma=common.GAMMA), **networks)
        model.set_discriminator(Discriminator(made))
        config = AdversarialTrainerConfig(
            **epochs,
            per_device_train_batch_size=2 * made.batch,  # it halves a batch into the two that the paper draws
            autoencoder_learning_rate=common.LR,
            discriminator_learning_rate=common.DISCRIMINATOR_LR,
            discriminator_optimizer_params={"betas": common.DISCRIMINATOR_BETAS},
        )
        return AdversarialTrainer(model, data, training_config=config)
    if made.model == "betavae":
        model = BetaVAE(BetaVAEConfig(**shared, beta=common.BETA), **networks)
    elif made.model == "tcvae":
        model = BetaTCVAE(BetaTCVAEConfig(**shared, alpha=1.0, beta=common.BETA, gamma=1.0, use_mss=True), **networks)
    else:
        model = VAE(VAEConfig(**shared), **networks)
    config = BaseTrainerConfig(**epochs, per_device_train_batch_size=made.batch, learning_rate=common.LR)
    return BaseTrainer(model, data, training_config=config)


def run(made: Task) -> None:
    images = torch.from_numpy(squares(common.ROWS, made.side)).float().div_(255)
    clock = Clock(made)
    with tempfile.TemporaryDirectory() as folder:
        training = trainer(made, BaseDataset(images, torch.zeros(len(images))), folder)
        clock.watch(2 if made.model == "factorvae" else 1, leave=True)
        try:
            training.train()
        except Done:
            report(made, clock, version=version("pythae"))


if __name__ == "__main__":
    run(task("pythae", ("betavae", "tcvae", "factorvae", "mnist")))
