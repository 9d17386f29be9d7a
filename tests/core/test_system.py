"""The base of all systems, on systems that are not like the others: steps in time, no encoder, players that rest."""

import numpy as np
import pytest
import torch
from torch import nn

from unweave.base.card import Card
from unweave.base.errors import ShapeError, UnknownNameError, UnweaveError
from unweave.base.schedule import Schedule
from unweave.base.seeding import derive_seed
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.core.codes import Codes
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import Delta, normal, standard_normal
from unweave.core.players import Optimiser, Player
from unweave.core.system import System, SystemConfig
from unweave.core.terms import Terms
from unweave.core.trace import Trace
from unweave.data import from_arrays
from unweave.runs import train

T, D = 3, 2
SPEC = DataSpec((T,), "real", 10)


class Walk(System, Encodes, Decodes, Samples):
    """A block over time, one site per step, each depending on the one before."""

    card = Card("walk")
    config_class = SystemConfig
    blocks = (Block("z", (T, D), axes=("time", "dim")),)

    def __init__(self, config, spec):
        super().__init__(config, spec)
        self.net = nn.Linear(1 + D, D)

    def infer(self, q, batch):
        z = batch.observations.new_zeros(batch.rows, D)
        for t in range(T):
            z = q.sample(f"z[{t}]", normal(self.net(torch.cat([batch.observations[:, t : t + 1], z], -1)), 0.5))

    def generate(self, p, context):
        z, seen = torch.zeros(context.rows, D), []
        for t in range(T):
            z = p.sample(f"z[{t}]", normal(0.9 * z, 1.0))
            seen.append(z.sum(-1))
        p.sample("x", normal(torch.stack(seen, -1), 1.0))

    def objective(self, player, batch, step):
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        names = [f"z[{t}]" for t in range(T)]
        return Terms({"reconstruction": -p.log_prob("x"), "kl": q.log_prob(*names) - p.log_prob(*names)})


class Forger(System, Decodes, Samples):
    """A generator and a critic without a recognition program; the critic rests for the first steps."""

    card = Card("forger")
    config_class = SystemConfig
    blocks = (Block("z", (D,)),)

    def __init__(self, config, spec):
        super().__init__(config, spec)
        self.generator, self.critic = nn.Linear(D, T), nn.Linear(T, 1)

    def players(self):
        rate = Optimiser(kind="sgd", lr=0.1)
        return Player("critic", (self.critic,), rate), Player("generator", (self.generator,), rate, every=2)

    def generate(self, p, context):
        p.sample("x", Delta(self.generator(p.sample("z", standard_normal(D)))))

    def objective(self, player, batch, step):
        fake = self.critic(self.joint({}, Batch(rows=batch.rows))["x"]).squeeze(-1)
        if player == "generator":
            return Terms({"realism": -fake})
        start = Schedule(kind="jump", start=0, end=1, steps=3)
        return Terms({"gap": fake - self.critic(batch.observations).squeeze(-1)}, {"gap": start})


def data():
    return from_arrays(np.random.default_rng(0).normal(size=(40, T)).astype(np.float32), values="real")


def test_a_block_made_step_by_step_is_one_block_in_codes():
    torch.manual_seed(0)
    system = Walk(SystemConfig(), SPEC)
    x = torch.randn(5, T)
    codes = system.encode(Batch.of(x))
    assert codes["z"].shape == (5, T, D)
    z, by_hand = torch.zeros(5, D), []
    for t in range(T):
        z = system.net(torch.cat([x[:, t : t + 1], z], -1))
        by_hand.append(z.detach())
    np.testing.assert_allclose(codes["z"], torch.stack(by_hand, 1).numpy(), rtol=1e-6)
    assert (codes.spread("z") == 0.5).all()


def test_codes_of_a_block_find_its_steps_when_rendered():
    system = Walk(SystemConfig(), SPEC)
    values = np.random.default_rng(0).normal(size=(4, T, D)).astype(np.float32)
    rendered = system.render(Codes(system.blocks, {"z": values}))
    np.testing.assert_allclose(rendered, values.sum(-1), rtol=1e-5)
    assert system.draw(6, seed=0)["z"].shape == (6, T, D)


def test_too_few_steps_are_named():
    p = Trace({"z": torch.zeros(4, 2, D)}, rows=4)
    p.sample("z[0]", standard_normal(D))
    p.sample("z[1]", standard_normal(D))
    with pytest.raises(ShapeError, match=r"site 'z\[2\]' looks for its part"):
        p.sample("z[2]", standard_normal(D))


def test_a_misspelt_block_is_an_error_and_not_a_draw():
    system = Walk(SystemConfig(), SPEC)
    with pytest.raises(UnknownNameError, match="unknown block 'zz'"):
        system.joint({"zz": torch.zeros(2, T, D)}, Batch(rows=2))


def test_a_recognition_program_that_misses_a_block_is_named():
    class Forgets(Walk):
        blocks = (*Walk.blocks, Block("style", (D,)))

    with pytest.raises(UnweaveError, match="does not sample block 'style'"):
        Forgets(SystemConfig(), SPEC).posterior(Batch.of(torch.randn(4, T)))


def test_a_label_for_an_unknown_variable_is_named():
    with pytest.raises(UnknownNameError, match="unknown variable 'digit'"):
        Walk(SystemConfig(), SPEC).posterior(Batch.of(torch.randn(4, T)), {"digit": torch.zeros(4)})


def test_generation_never_sees_the_observation():
    class Peeks(Walk):
        def generate(self, p, context):
            assert context.x is None
            super().generate(p, context)

    system = Peeks(SystemConfig(), SPEC)
    system.objective("model", Batch.of(torch.randn(4, T)), 0)


def test_a_generator_without_an_encoder_trains_draws_and_says_what_it_cannot(tmp_path):
    run = train(Forger, data(), settings={"training.steps": 6, "training.batch_size": 8}, run=tmp_path / "run",
                log_every=1, progress=False, threads=1)  # fmt: skip
    log = run.log()
    assert np.isnan(log["generator/realism"][1])  # it plays at steps 0, 2, 4
    assert np.isfinite(log["generator/realism"][0])
    assert run.operate("sample").images.size
    with pytest.raises(UnweaveError, match="forger lacks the capability Encodes: it has Decodes, Samples"):
        run.encode_split()
    with pytest.raises(UnweaveError, match="has no recognition program"):
        run.system().posterior(Batch.of(torch.zeros(1, T)))


def test_a_player_whose_weights_are_all_zero_does_not_move(tmp_path):
    torch.manual_seed(derive_seed(0, 0))  # as training seeds the first weights of a run with seed 0
    first = Forger(SystemConfig(), SPEC).critic.weight
    after = {}
    for steps in (3, 4):  # the critic's weight is 0 at steps 0, 1 and 2
        settings = {"training.batch_size": 8, "training.steps": steps}
        run = train(Forger, data(), settings=settings, run=tmp_path / str(steps), progress=False, threads=1)
        after[steps] = run.system().critic.weight
    assert torch.equal(after[3], first)
    assert not torch.equal(after[4], first)


def test_steps_draw_what_manual_seed_would_and_leave_no_calls_behind():
    from unweave.core.system import _seed_draws

    torch.manual_seed(7)
    expected = torch.randn(5)
    waiting = len(torch.cuda._queued_calls)
    for _ in range(3):
        _seed_draws(7, torch.device("cpu"))
        assert torch.equal(torch.randn(5), expected)
    assert len(torch.cuda._queued_calls) == waiting
