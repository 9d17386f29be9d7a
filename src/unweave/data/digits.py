"""The small digits that come with scikit-learn: 1,797 of them, 8 x 8."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unweave.base.card import Card
from unweave.core.dataspec import DataSpec
from unweave.core.factors import Factors
from unweave.data._dataset import DataSet, DataSource


class Digits(DataSource):
    """Handwritten digits, 8 x 8 with 17 grey levels, and the factor `digit`; no download."""

    name: ClassVar[str] = "digits"
    card: ClassVar[Card] = Card(
        summary="1,797 small handwritten digits 8 x 8, with the digit; comes with scikit-learn",
        paper="Alpaydin, Kaynak: Optical recognition of handwritten digits, UCI Machine Learning Repository, 1998",
        bibtex="""@misc{alpaydin1998optical,
  author       = {Alpaydin, E. and Kaynak, C.},
  title        = {Optical Recognition of Handwritten Digits},
  howpublished = {{UCI} Machine Learning Repository},
  doi          = {10.24432/C50P49},
  year         = {1998},
}""",
        needs="nothing",
    )

    def load(self) -> DataSet:
        from sklearn.datasets import load_digits

        packaged = load_digits()
        images = (packaged.images[:, None] / 16).astype(np.float32)  # (N, 1, 8, 8), whole numbers 0..16 before
        return DataSet(
            self.name,
            DataSpec(images.shape[1:], "unit", len(images)),
            lambda rows: images[rows],
            Factors(("digit",), packaged.target[:, None], ("discrete",), (tuple("0123456789"),)),
            ("pixels 0..16 divided by 16",),
        )
