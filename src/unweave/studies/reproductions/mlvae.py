"""ML-VAE (Bouchacourt, Tomioka and Nowozin 2018): figures 4 to 7 on MNIST by digit, and on faces by identity.

A network learns the class of test images from codes accumulated over K = 10 images, and is then asked with codes of
k = 1 .. 10 images (figure 7). Content should name the class, better with more images; style should not. The rival is a
VAE with the same networks and as many dimensions, whose codes are accumulated in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unweave.studies.reproductions._mlvae_figures import (
    accumulation,
    accuracy_picture,
    generation,
    interpolation,
    swapping,
)
from unweave.studies.reproductions._mlvae_measures import (
    DIGITS,
    FACES,
    bits_under_vae,
    corrected,
    over_style,
    over_vae,
    rise,
    style_rise,
    variance_shrinks,
    worst_step,
)
from unweave.studies.reproductions._reproduction import (
    Claim,
    Figure,
    PlannedRun,
    Reproduction,
    Scale,
    at_least,
    at_most,
)

# 50,000 images to train on and 10,000 to choose settings by; the test file is only measured on.
MNIST_SPLIT = {"train": 5 / 6, "validation": 1 / 6}
# 38 people: 21 to train on, 7 to choose settings by, 10 to measure on. Nobody is in two parts.
FACES_SPLIT = {"train": 0.55, "validation": 0.19, "by": "subject"}

MNIST_NETS: dict[Scale, dict[str, Any]] = {
    "quick": {
        "nets.kind": "dense",
        "nets.hidden": [500],
        "nets.activation": "relu",
        "likelihood.kind": "gaussian",
        "likelihood.std": 1.0,
        "training.batch_size": 200,
        "training.steps": 6000,
        "training.optimiser.lr": 1e-3,
    },
    "paper": {
        "nets.kind": "dense",
        "nets.hidden": [500],
        "nets.activation": "tanh",
        "likelihood.kind": "gaussian",
        "likelihood.variance": "predicted",
        "training.batch_size": 640,
        "training.steps": 40_000,
        "training.optimiser.lr": 1e-3,
    },
}
FACES_NETS: dict[Scale, dict[str, Any]] = {
    "quick": {
        "nets.kind": "dense",
        "nets.hidden": [300],
        "nets.activation": "relu",
        "likelihood.kind": "gaussian",
        "likelihood.std": 0.3,
        "training.batch_size": 64,
        "training.steps": 2000,
        "training.optimiser.lr": 1e-3,
    },
    "paper": {
        "nets.kind": "convolutional",
        "nets.stem": 2,
        "nets.channels": [64, 128, 256],
        "nets.hidden": [256],
        "nets.activation": "relu",
        "likelihood.kind": "gaussian",
        "likelihood.variance": "predicted",
        "likelihood.std": 0.1,
        "training.batch_size": 160,
        "training.steps": 20_000,
        "training.optimiser.lr": 1e-3,
    },
}
FACES_GROUPS: dict[Scale, dict[str, Any]] = {
    "quick": {"content": 20, "style": 20, "groups_per_batch": 8, "members": 8},
    "paper": {"content": 50, "style": 50, "groups_per_batch": 16, "members": 10},
}


def plan(scale: Scale, seeds: Sequence[int]) -> list[PlannedRun]:
    """Seeds outermost: stopped early, every row has the same seeds."""
    digits = {"data": "mnist", "split": MNIST_SPLIT}
    faces = {"data": "yaleb", "data_settings": {"size": 32 if scale == "quick" else 64}, "split": FACES_SPLIT}
    groups = FACES_GROUPS[scale]
    dimensions = groups["content"] + groups["style"]
    rows: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "mlvae": ("mlvae", {**MNIST_NETS[scale], "content": 10, "style": 10, "group": "digit"}, digits),
        "vae": ("vae", {**MNIST_NETS[scale], "latent": 20}, digits),
        "faces-mlvae": ("mlvae", {**FACES_NETS[scale], **groups, "group": "subject"}, faces),
        "faces-vae": ("vae", {**FACES_NETS[scale], "latent": dimensions}, faces),
    }
    return [
        PlannedRun(row=row, system=system, seed=seed, settings=settings, **where)
        for seed in seeds
        for row, (system, settings, where) in rows.items()
    ]


CLAIMS = (
    Claim(
        "content-over-vae",
        "With one image, content names the digit more often than the code of a VAE with the same networks.",
        "fig. 7: content above the VAE for small k",
        "points",
        lambda lab, seed: over_vae(lab, seed, DIGITS),
        at_least(10),
        DIGITS,
    ),
    Claim(
        "content-rises",
        "Ten images together name the digit more often than one.",
        "fig. 7: accuracy of content rises with k",
        "points",
        lambda lab, seed: rise(lab, seed, "mlvae"),
        at_least(1, every=True),
        ("mlvae",),
    ),
    Claim(
        "content-monotone",
        "Another image does not make content worse: the smallest change from one k to the next.",
        "fig. 7: accuracy of content rises with k",
        "points",
        lambda lab, seed: worst_step(lab, seed, "mlvae"),
        at_least(-0.5, every=True),
        ("mlvae",),
    ),
    Claim(
        "style-under-content",
        "The style of an image tells its digit much less than content does, both with one image.",
        "fig. 7: style stays uninformative",
        "points",
        lambda lab, seed: over_style(lab, seed, "mlvae"),
        at_least(40),
        ("mlvae",),
    ),
    Claim(
        "accumulated-style-flat",
        "Style accumulated over ten images tells the digit at most ten points more often than that of one.",
        "section 4: style is expected to remain constant in k",
        "points",
        lambda lab, seed: style_rise(lab, seed, "mlvae"),
        at_most(10),
        ("mlvae",),
    ),
    Claim(
        "bits-under-vae",
        "With one image, fewer bits of the digit are unknown given content (eq. 8) than given the VAE's code.",
        "fig. 7: conditional entropy of content below the VAE's for small k",
        "bits",
        lambda lab, seed: bits_under_vae(lab, seed, DIGITS),
        at_least(0, every=True),
        DIGITS,
    ),
    Claim(
        "evidence-corrects",
        "With four images together at most half as many digits are named wrongly as with one: by how much fewer.",
        "fig. 6b: an example",
        "%",
        corrected,
        at_least(50),
        ("mlvae",),
    ),
    Claim(
        "variance-one-over-k",
        "The variance of the product of k equal posteriors is 1/k of one's: largest relative difference.",
        "eq. 7",
        "ratio",
        variance_shrinks,
        at_most(1e-12),
        (),
        per_seed=False,
    ),
    Claim(
        "faces-content-over-vae",
        "On people never trained on, content of one image tells the person more often than the VAE's code.",
        "fig. 7, MS-Celeb-1M: content above the VAE for small k",
        "points",
        lambda lab, seed: over_vae(lab, seed, FACES),
        at_least(1),
        FACES,
    ),
    Claim(
        "faces-content-rises",
        "On people never trained on, ten images together tell the person more often than one.",
        "fig. 7, MS-Celeb-1M: accuracy of content rises with k",
        "points",
        lambda lab, seed: rise(lab, seed, "faces-mlvae"),
        at_least(1, every=True),
        ("faces-mlvae",),
    ),
    Claim(
        "faces-style-under-content",
        "On people never trained on, style tells the person less often than content, both with one image.",
        "fig. 7, MS-Celeb-1M: style stays uninformative",
        "points",
        lambda lab, seed: over_style(lab, seed, "faces-mlvae"),
        at_least(1),
        ("faces-mlvae",),
    ),
)

FIGURES = (
    Figure(
        "fig7-mnist",
        "Figure 7 for MNIST: how often a network names the digit of test images, and how many bits are unknown, from "
        "codes of k images. Dotted: the network is trained on codes of single images too.",
        lambda lab, path: accuracy_picture(lab, path, DIGITS),
        DIGITS,
    ),
    Figure(
        "fig7-faces",
        "Figure 7 for faces: the same for the person, ten people that were not trained on.",
        lambda lab, path: accuracy_picture(lab, path, FACES),
        FACES,
    ),
    Figure(
        "fig4-swapping",
        "Figure 4: test images above and on the left. Each row has the style of the left image, each column the "
        "content of the one above, accumulated over ten images.",
        swapping,
        ("mlvae",),
    ),
    Figure(
        "fig5-interpolation",
        "Figure 5: from a three to a nine. Content moves to the right, style downwards.",
        interpolation,
        ("mlvae",),
    ),
    Figure(
        "fig6a-generation",
        "Figure 6a, with digits: content of the four test images on the left, style drawn from the prior, the same "
        "draw in each column.",
        generation,
        ("mlvae",),
    ),
    Figure(
        "fig6b-accumulation",
        "Figure 6b: test images on the left, then reconstructions with the content of k = 1, 2, 3 and 4 images of the "
        "same digit. The first of each four is the test image whose content is most like another digit's.",
        accumulation,
        ("mlvae",),
    ),
)


NOTES = """The supplement with the encoders was not at hand: our encoder mirrors the decoder that section 4 describes.

What is smaller or different at quick scale:

- MNIST: one layer of 500 units, as in the paper, with rectified linear units instead of hyperbolic tangents, and a
  normal likelihood with variance 1 instead of a predicted variance. Settings were chosen on the validation images.
- Faces: Extended Yale B (38 people, 64 lights, 32 x 32 pixels) instead of MS-Celeb-1M, which is no longer offered. 21
  people are trained on (the paper: 48,880), 7 were used to choose settings, 10 others are measured on: the same ones
  for all seeds. Networks are dense, with one layer of 300 units and 20 + 20 dimensions, and the likelihood is normal
  with standard deviation 0.3. There are no pictures of faces here, because we know of no licence to print them.
- A batch has some members of each group instead of whole groups. The content posterior of a part is wider than that of
  the whole, and the one content KL counts for fewer images: more is paid for content than with whole groups.

What is measured:

- A network with one hidden layer of 128 units learns the class from codes accumulated over K = 10 images, on half of
  the test images, and is asked with codes of k images of the other half. A code is the mean of the posterior.
- With that classifier a code of one image lies off what the network has seen, which costs the
  VAE most. A network trained on codes of single images is another matter: the dotted lines of figure 7 show it, and on
  validation faces it read the person from both codes equally well. The claim about k = 1 is the paper's, and it is
  about this protocol.
- The paper does not say how the styles of k images enter the classifier. Each image has its own style: read one at a
  time it is flat in k by construction. The claims about style compare it with content of one image, both read by a
  network trained on such single codes. Accumulated as if it were one code for the
  group, style becomes more informative with k, since even a weak sign of the digit adds up; the claim
  `accumulated-style-flat` shows how much.
"""

REPRODUCTION = Reproduction(
    name="mlvae",
    summary="ML-VAE: content and style of MNIST digits and of faces of people never trained on",
    needs=("mnist", "yaleb"),
    tests=(("mnist", {"split": "test"}),),
    plan=plan,
    claims=CLAIMS,
    figures=FIGURES,
    notes=NOTES,
)
