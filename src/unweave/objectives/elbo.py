"""The evidence lower bound: reconstruction, and the KL divergence from posterior to prior.

    -ELBO(x) = -E_q(z|x)[log p(x|z)] + KL(q(z|x) || p(z))            (Kingma & Welling 2014, eq. 3)

In the numbers of Esmaeili et al. 2019, figure 1: the reconstruction is (1) + (3), the KL is (2) + (4).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal, kl_divergence

from unweave.base.errors import ConfigError, ShapeError, UnweaveError
from unweave.core.distributions import FewPassNormal, elementwise_kl, normal
from unweave.core.trace import Provenance, Site, Trace

Estimator = Literal["analytic", "sampled", "auto"]


def reconstruction(p: Trace, name: str = "x") -> Tensor:
    """(B,) or (S, B): -log p(x|z), the negative log-likelihood of an observed site, summed over its event."""
    return -p.site(name).log_prob


def kl(q: Trace, p: Trace, *names: str, estimator: Estimator = "analytic") -> Tensor:
    """(B,) or (S, B): KL(q(z|x) || p(z)), summed over sites.

    names:     the sites z to sum over; all sites of q that p has when none is named
    estimator: "analytic", the closed form; "sampled", log q(z|x) - log p(z) at the drawn z, unbiased;
               "auto", analytic for the sites that have a closed form and sampled for the others (Concrete)
    """
    if estimator not in ("analytic", "sampled", "auto"):
        raise ConfigError(f"unknown KL estimator {estimator!r}: choose 'analytic', 'sampled' or 'auto'")
    chosen = names or _shared_sites(q, p)
    pairs = [(q.site(name), p.site(name)) for name in chosen]
    if len(pairs) > 1 and estimator != "sampled":
        posterior, prior = (_as_one([pair[side].distribution for pair in pairs]) for side in (0, 1))
        if posterior is not None and prior is not None and posterior.mean.shape == prior.mean.shape:
            return kl_divergence(posterior, prior).sum(0)
    costs = [_site_kl(*pair, estimator) for pair in pairs]
    return costs[0] if len(costs) == 1 else torch.stack(torch.broadcast_tensors(*costs)).sum(0)


def sampled_kl(q: Trace, p: Trace, *names: str) -> Tensor:
    """(B,) or (S, B): log q(z|x) - log p(z) at the values of q, summed over sites; an unbiased estimate of the KL."""
    return kl(q, p, *names, estimator="sampled")


def kl_elements(q: Trace, p: Trace, name: str) -> Tensor:
    """(B, E) or (S, B, E): the analytic KL of each of the E separate elements of one site.

    A factorised site has one element per number, a Concrete or multivariate normal site is one element. The sum over
    the last axis is `kl(q, p, name)`. Dimensions that the model ignores show a KL near zero.
    """
    posterior, prior = q.site(name).distribution, p.site(name).distribution
    divergence = elementwise_kl(posterior, prior)
    if divergence is None:
        return kl(q, p, name).unsqueeze(-1)
    return divergence if posterior.batch_shape else divergence.expand(_rows(q.site(name)), -1)


def _shared_sites(q: Trace, p: Trace) -> tuple[str, ...]:
    shared = tuple(site for site in q.sites() if site.name in p)
    if not shared:
        raise UnweaveError(
            f"q has no site that p has: q has {q.names}, p has {p.names}; sample the same blocks in both"
        )
    for site in shared:
        if site.provenance is Provenance.OBSERVED:
            raise UnweaveError(
                f"site {site.name!r} is observed in q, so its KL is not part of the bound: name the sites to sum over, "
                "for example kl(q, p, 'style')"
            )
    return tuple(site.name for site in shared)


def _as_one(distributions: list[Distribution]) -> Independent | None:
    """Factorised normals of one shape, (B, D) each, as one over (N, B, D); None where one is not like the others.

    Many small sites, such as the steps of a sequence, are then one computation.
    """
    shapes = {(each.batch_shape, each.event_shape) for each in distributions}
    normals = [
        each for each in distributions if isinstance(each, Independent) and type(each.base_dist) is FewPassNormal
    ]
    factorised = all(each.reinterpreted_batch_ndims == 1 and each.batch_shape for each in normals)
    if len(normals) < len(distributions) or len(shapes) > 1 or not factorised:
        return None
    return normal(*(torch.stack([getattr(each.base_dist, part) for each in normals]) for part in ("loc", "scale")))


def _site_kl(q: Site, p: Site, estimator: Estimator) -> Tensor:
    if estimator != "sampled":
        divergence = _closed_form(q.distribution, p.distribution)
        if divergence is not None:
            return divergence if divergence.dim() else divergence.expand(_rows(q))
        if estimator == "analytic":
            kinds = f"{type(q.distribution).__name__} and {type(p.distribution).__name__}"
            raise ConfigError(
                f"site {q.name!r} has no closed-form KL between {kinds}: use estimator='sampled', or 'auto' to sample "
                "only such sites"
            )
    if q.value is not p.value and not (q.value.shape == p.value.shape and torch.equal(q.value, p.value)):
        raise UnweaveError(
            f"site {q.name!r} has another value in p than in q: run the generative program on `q.as_given(x=...)`"
        )
    return q.log_prob - p.log_prob


def _closed_form(q: Distribution, p: Distribution) -> Tensor | None:
    """KL(q || p) in closed form, None where there is none."""
    if q.event_shape != p.event_shape:
        raise ShapeError(
            f"the posterior has event shape {tuple(q.event_shape)}, the prior {tuple(p.event_shape)}: make them equal"
        )
    if isinstance(p, MultivariateNormal) and isinstance(q, Independent) and isinstance(q.base_dist, Normal):
        q = MultivariateNormal(q.mean, scale_tril=torch.diag_embed(q.stddev), validate_args=False)
    try:
        return kl_divergence(q, p)
    except NotImplementedError:
        return None


def _rows(site: Site) -> int:
    return site.value.shape[site.value.dim() - len(site.distribution.event_shape) - 1]
