"""The unsupervised family on dSprites: same networks, same number of steps, three seeds, one table.

Weights are those the papers use on this data where they state them (beta = 4, and beta = 4, gamma = 3 for HFVAE, from
table 3 of the HFVAE paper), else the quick presets' own; none was chosen by looking at the scores.
"""

from __future__ import annotations

from unweave.studies._study import PlannedRun, Study

SYSTEMS = ("vae", "betavae", "dipvae", "factorvae", "tcvae", "hfvae")


def plan(seeds: int, steps: int) -> list[PlannedRun]:
    """Seeds outermost: stopped early, every system has the same seeds."""
    return [
        PlannedRun(
            row=system,
            system=system,
            data="dsprites",
            seed=seed,
            preset="quick",
            settings={"training.steps": steps, "training.batch_size": 64},
        )
        for seed in range(seeds)
        for system in SYSTEMS
    ]


DSPRITES = Study(
    name="dsprites",
    summary="vae, betavae, dipvae, factorvae, tcvae and hfvae on dSprites, same steps, all scores",
    plan=plan,
    scores=(
        "mig",
        "kim",
        "higgins_fixed",
        "sap",
        "dci_forest",
        "dci_forest/completeness",
        "modularity",
        "explicitness",
        "irs",
        "total_correlation/gaussian",
        "total_correlation/own_share",
    ),
    steps=6000,
)
