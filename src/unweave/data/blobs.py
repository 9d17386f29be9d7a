"""A Gaussian blob on a black canvas: two factors, x and y (the data of figure 2 of Burgess et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from unweave.base.card import Card
from unweave.core.dataspec import DataSpec
from unweave.core.factors import FactorKind, Factors
from unweave.data._dataset import DataSet, DataSource


class Blobs(DataSource):
    """Pixel p at distance d(p) from the blob's centre has the value exp(-d(p)^2 / (2 sigma^2)), in (0, 1]."""

    name: ClassVar[str] = "blobs"
    card: ClassVar[Card] = Card(
        summary="a Gaussian blob at position x, y on a black canvas",
        paper="Burgess, Higgins, Pal, Matthey, Watters, Desjardins and Lerchner: "
        "Understanding disentangling in beta-VAE, 2018",
        bibtex="""@misc{burgess2018understanding,
  author        = {Burgess, Christopher P. and Higgins, Irina and Pal, Arka and Matthey, Loic and Watters, Nick and
                   Desjardins, Guillaume and Lerchner, Alexander},
  title         = {Understanding disentangling in {$\\beta$-VAE}},
  year          = {2018},
  eprint        = {1804.03599},
  archivePrefix = {arXiv},
}""",
        needs="nothing",
    )

    resolution: Annotated[int, Field(ge=4, le=1024)] = 64
    """Height and width of the images in pixels."""
    sigma: Annotated[float, Field(gt=0, lt=1 / 6)] = 0.0625
    """Standard deviation of the blob as a share of the canvas; centres stay 3 sigma from the border."""
    steps: Annotated[int, Field(ge=1)] = 32
    """Values of x and of y on the grid of steps x steps images."""
    continuous: bool = False
    """Draw x and y uniformly from [0, 1] instead of taking the grid."""
    size: Annotated[int, Field(ge=1)] = 10_000
    """How many images to draw when `continuous` is true."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draws when `continuous` is true."""

    def load(self) -> DataSet:
        """The data set; images are made when they are read."""
        if self.continuous:
            table = position = np.random.default_rng(self.seed).uniform(size=(self.size, 2))
            note = f"positions drawn at random (seed {self.seed})"
        else:
            table = np.stack(np.divmod(np.arange(self.steps**2), self.steps), axis=1)
            position = np.linspace(0, 1, self.steps)[table]
            note = f"all {self.steps} x {self.steps} positions, y changes fastest"
        kind: FactorKind = "continuous" if self.continuous else "discrete"
        return DataSet(
            name=self.name,
            spec=DataSpec((1, self.resolution, self.resolution), "unit", len(table)),
            read=_Read(position, self.sigma, self.resolution),
            factors=Factors(("x", "y"), table, (kind, kind)),
            notes=(note,),
        )


@dataclass
class _Read:
    """rows (n,) -> (n, 1, H, W) float32; position (N, 2) is x and y in [0, 1], with the ends 3 sigma off the border."""

    position: np.ndarray
    sigma: float
    resolution: int

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        centres = 3 * self.sigma + (1 - 6 * self.sigma) * self.position[rows]  # (n, 2), shares of the canvas
        pixels = (np.arange(self.resolution) + 0.5) / self.resolution
        # exp(-(a^2 + b^2)) = exp(-a^2) exp(-b^2): one exponential per row and per column of pixels.
        profile = np.exp(-((pixels - centres[:, :, None]) ** 2) / (2 * self.sigma**2)).astype(np.float32)
        across, down = profile[:, 0], profile[:, 1]  # (n, resolution) each
        return (down[:, :, None] * across[:, None, :])[:, None]
