"""Pyro: the same networks in a model and a guide, and a loop over SVI with TraceMeanField_ELBO, as in its tutorials.

What differs from the others is listed in benchmarks/README.md. TC-VAE and FactorVAE would be objectives of one's own.
"""

from __future__ import annotations

from importlib.metadata import version

import common
import pyro
import torch
from common import Clock, Task, batches, report, squares, task
from pyro import distributions, poutine
from pyro.infer import SVI, TraceMeanField_ELBO
from pyro.optim import Adam
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, made: Task):
        super().__init__()
        self.task = made
        self.encoder, self.decoder = common.encoder(made), common.decoder(made)
        self.beta = common.BETA if made.model == "betavae" else 1.0

    def model(self, x: Tensor) -> None:
        pyro.module("decoder", self.decoder)
        with pyro.plate("batch", len(x)), poutine.scale(scale=1 / len(x)):
            zero = x.new_zeros(len(x), self.task.latent)
            with poutine.scale(scale=self.beta):
                z = pyro.sample("z", distributions.Normal(zero, 1.0).to_event(1))
            pyro.sample("x", distributions.Bernoulli(logits=self.decoder(z)).to_event(3), obs=x)

    def guide(self, x: Tensor) -> None:
        pyro.module("encoder", self.encoder)
        with pyro.plate("batch", len(x)), poutine.scale(scale=self.beta / len(x)):
            mean, log_variance = self.encoder(x).chunk(2, dim=1)
            pyro.sample("z", distributions.Normal(mean, torch.exp(log_variance / 2)).to_event(1))


def run(made: Task) -> None:
    pyro.enable_validation(False)
    images = squares(common.ROWS, made.side)
    both = Model(made)
    svi = SVI(both.model, both.guide, Adam({"lr": common.LR}), loss=TraceMeanField_ELBO())
    clock = Clock(made)
    for x in batches(images, made.batch, made.total):
        loss = svi.step(x)
        clock.tick()
    report(made, clock, loss=float(loss), version=version("pyro-ppl"))


if __name__ == "__main__":
    run(task("pyro", ("betavae", "mnist")))
