"""The loop a researcher writes in an afternoon: eager PyTorch, textbook layers, Adam as it comes, nothing logged."""

from __future__ import annotations

import math

import torch
from common import (
    BETA,
    DISCRIMINATOR_BETAS,
    DISCRIMINATOR_LR,
    GAMMA,
    LR,
    ROWS,
    Clock,
    Task,
    batches,
    decoder,
    discriminator,
    encoder,
    report,
    squares,
    task,
)
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


def run(made: Task) -> None:
    images = squares(ROWS, made.side)
    encode, decode = encoder(made), decoder(made)
    adam = torch.optim.Adam([*encode.parameters(), *decode.parameters()], lr=LR)
    log_weights = stratified(made.batch, ROWS)
    critic = discriminator(made) if made.model == "factorvae" else None
    if critic is not None:
        critic_adam = torch.optim.Adam(critic.parameters(), lr=DISCRIMINATOR_LR, betas=DISCRIMINATOR_BETAS)
        second = batches(images[::-1], made.batch, made.total)

    clock = Clock(made)
    for x in batches(images, made.batch, made.total):
        mean, log_variance = encode(x).chunk(2, dim=1)
        z = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
        logits = decode(z)
        loss = binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        if made.model == "tcvae":
            loss = loss + parts(z, mean, log_variance, log_weights)
        else:
            kl = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum() / len(x)
            loss = loss + (BETA * kl if made.model == "betavae" else kl)
        if critic is not None:
            scores = critic(z)
            loss = loss + GAMMA * (scores[:, 0] - scores[:, 1]).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()

        if critic is not None:
            with torch.no_grad():
                other_mean, other_log_variance = encode(next(second)).chunk(2, dim=1)
                other = other_mean + torch.exp(other_log_variance / 2) * torch.randn_like(other_mean)
                permuted = torch.stack([column[torch.randperm(len(other))] for column in other.T], dim=1)
            joint = torch.zeros(len(x), dtype=torch.long)
            cost = (cross_entropy(critic(z.detach()), joint) + cross_entropy(critic(permuted), joint + 1)) / 2
            critic_adam.zero_grad()
            cost.backward()
            critic_adam.step()
        clock.tick()
    report(made, clock, loss=loss.item())


def parts(z: Tensor, mean: Tensor, log_variance: Tensor, log_weights: Tensor) -> Tensor:
    """Information + beta total correlation + dimension-wise KL, from the densities of all pairs of the batch."""
    own = log_normal(z, mean, log_variance).sum(1)
    prior = log_normal(z, torch.zeros_like(z), torch.zeros_like(z)).sum(1)
    pairs = log_normal(z[:, None], mean[None], log_variance[None])
    joint = (pairs.sum(2) + log_weights).logsumexp(1)
    product = (pairs + log_weights[:, :, None]).logsumexp(1).sum(1)
    return ((own - joint) + BETA * (joint - product) + (product - prior)).mean()


def log_normal(z: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    return -0.5 * (math.log(2 * math.pi) + log_variance + (z - mean) ** 2 * torch.exp(-log_variance))


def stratified(batch: int, size: int) -> Tensor:
    """(B, B) logs of the weights with which a batch stands for the data: 1/N for the example itself."""
    weights = torch.full((batch, batch), (size - 1) / (size * (batch - 1)))
    return weights.fill_diagonal_(1 / size).log()


if __name__ == "__main__":
    run(task("plain", ("betavae", "tcvae", "factorvae", "mnist")))
