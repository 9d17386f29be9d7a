"""The memory of posteriors: what it keeps, what it forgets, what a resumed run remembers."""

from __future__ import annotations

import pytest
import torch

from unweave.base.errors import ConfigError
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import Concrete, normal
from unweave.core.trace import Trace
from unweave.data import load
from unweave.objectives.memory import PosteriorMemory
from unweave.runs import resume, train
from unweave.systems.hfvae import HFVAE, HFVAEConfig

SIZES = {"style": ("normal", 2), "digit": ("concrete", 3)}
SETTINGS = {
    "blocks": "digit=concrete(4), style=normal(3)", "nets.kind": "dense", "nets.hidden": [16], "memory": 48,
    "training.batch_size": 16, "training.steps": 12,
}  # fmt: skip


def batch_of(values: list[float]) -> Trace:
    """Posteriors whose means, deviations and first logit tell which row they are."""
    mark = torch.tensor(values, dtype=torch.float32).unsqueeze(-1)
    q = Trace(rows=len(values))
    q.sample("style", normal(mark.expand(-1, 2), 1 + mark.expand(-1, 2)))
    q.sample("digit", Concrete(0.5, torch.cat([mark, torch.zeros(len(values), 2)], dim=-1)))
    return q


def held(memory: PosteriorMemory) -> list[float]:
    return sorted(memory.posteriors(0.5)["style"].base_dist.loc[:, 0].tolist())


def test_it_fills_up_and_then_forgets_the_oldest():
    memory = PosteriorMemory(5, SIZES)
    assert memory.posteriors(0.5) == {}
    memory.keep(batch_of([1, 2, 3]))
    assert held(memory) == [1, 2, 3]
    memory.keep(batch_of([4, 5, 6]))
    assert held(memory) == [2, 3, 4, 5, 6]
    memory.keep(batch_of([7, 8, 9, 10, 11, 12, 13]))  # more than it has room for: the last of them
    assert held(memory) == [9, 10, 11, 12, 13]


def test_it_gives_back_what_it_was_given():
    memory = PosteriorMemory(4, SIZES)
    q = batch_of([0.5, 1.5])
    memory.keep(q)
    found = memory.posteriors(0.7)
    assert found["digit"].temperature == 0.7
    torch.testing.assert_close(found["digit"].logits, q.site("digit").distribution.logits)
    torch.testing.assert_close(found["style"].base_dist.scale, q.site("style").distribution.base_dist.scale)


def system(**changes) -> HFVAE:
    config = HFVAEConfig().override({**SETTINGS, **changes})
    torch.manual_seed(0)
    return HFVAE(config, DataSpec((1, 8, 8), "unit", 400))


def test_it_remembers_in_training_only():
    model = system()
    batch = Batch.of(torch.rand(16, 1, 8, 8))
    model.eval().objective("model", batch, 0)
    assert int(model.memory.seen) == 0
    model.train().objective("model", batch, 0)
    assert int(model.memory.seen) == 16


def test_the_first_step_is_that_of_a_system_without_memory():
    """Nothing is remembered yet; later steps differ."""
    batch = Batch.of(torch.rand(16, 1, 8, 8))
    totals = []
    for rows in (0, 48):
        model = system(memory=rows).train()
        torch.manual_seed(1)
        first = model.objective("model", batch, 0).total()
        torch.manual_seed(2)
        totals.append((first.item(), model.objective("model", batch, 1).total().item()))
    assert totals[0][0] == pytest.approx(totals[1][0], rel=1e-6)
    assert totals[0][1] != pytest.approx(totals[1][1], rel=1e-6)


def test_a_resumed_run_remembers(tmp_path):
    data = load("digits")
    whole = train("hfvae", data, settings=SETTINGS, run=tmp_path / "whole", progress=False, threads=1, device="cpu")
    train("hfvae", data, settings={**SETTINGS, "training.steps": 7}, run=tmp_path / "parts", progress=False, threads=1,
          device="cpu")  # fmt: skip
    parts = resume(tmp_path / "parts", steps=12, data=data, progress=False)
    for name, value in whole.system().state_dict().items():
        assert torch.equal(value, parts.system().state_dict()[name]), name


def test_more_than_the_data_is_refused():
    with pytest.raises(ConfigError, match="smaller memory"):
        HFVAE(HFVAEConfig().override({**SETTINGS, "memory": 390}), DataSpec((1, 8, 8), "unit", 400))
