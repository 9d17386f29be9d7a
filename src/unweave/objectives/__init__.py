"""Objective terms: pure functions of traces that return unweighted costs, by module.

    likelihood     distributions of observations given codes
    elbo           KL(q(z|x) || p(z)), analytic and sampled, and the reconstruction: terms (1)+(3) and (2)+(4)
    marginals      the inference marginal q(z) of any part of the code, estimated from a batch; anchor variables
    decomposition  the KL as information (2), correlation between blocks (A), within blocks (i) and leaves (ii)
    moments        moment matching with a running covariance (DIP-VAE I and II)
    density_ratio  total correlation from a discriminator (FactorVAE)
    mmd            maximum mean discrepancy between q(z) and p(z) (InfoVAE)
    capacity       distance of the KL from a target (Burgess et al. 2018)
    groups         posteriors of a group: products and mixtures of its members' (ML-VAE)
    semi_supervised, graph
                   bounds with labels for some variables, and the base of models with any graph

Costs are nats per example, (B,) or (S, B); a scalar is a statistic of the whole batch. The numbers in brackets are
those of Esmaeili et al. 2019, figures 1 and 3. Weights are applied once and elsewhere, by `unweave.core.terms.Terms`.
"""
