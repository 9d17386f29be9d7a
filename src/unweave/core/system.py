"""Systems: one class per paper, abstract or final, on a base that trains, encodes and renders all of them.

A system says what its blocks are, how data become codes (`infer`), how codes become data (`generate`), and what is
minimised (`objective`). Everything else is here, once.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
import pydantic
import torch
from torch import Tensor, nn

from unweave.base.card import Card
from unweave.base.config import Config
from unweave.base.errors import TrainingError, UnweaveError, unknown_name
from unweave.base.registry import Registry
from unweave.base.seeding import derive_seed
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.capabilities import Capability, Decodes, Encodes, Samples, capabilities
from unweave.core.codes import Codes
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import centre, spread
from unweave.core.fitted import Fitted
from unweave.core.order import Order, Permuted, Reads, Table
from unweave.core.players import Optimiser, Player
from unweave.core.terms import Terms
from unweave.core.trace import Given, GivenMapping, Site, Trace

S = TypeVar("S", bound="SystemConfig")


class Training(Config):
    """How long and on what batches a system trains."""

    steps: pydantic.PositiveInt = 3000
    """Number of training steps."""
    batch_size: pydantic.PositiveInt = 64
    """Observations per step."""
    optimiser: Optimiser = Optimiser()
    """Update rule of the first (often the only) player."""


class SystemConfig(Fitted):
    """Base of every system's settings. `presets` names sets of changes, such as the paper's own and a quick one."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    training: Training = Training()
    """How long and on what batches it trains."""

    @classmethod
    def preset(cls: type[S], name: str | None = None) -> S:
        """The defaults, or the settings of a named preset."""
        if name is None or (name == "default" and name not in cls.presets):
            return cls()
        if name not in cls.presets:
            raise unknown_name("preset", name, ("default", *cls.presets))
        return cls().override(cls.presets[name])


class System(nn.Module, ABC):
    """A representation learner.

    Each paper's class is final: it derives from this one and from the capabilities it has, and from no other paper.

    config: typed settings, `config_class`; what is `auto` in them is chosen for the data
    spec:   shape, range and number of training observations
    """

    card: ClassVar[Card]
    config_class: ClassVar[type[SystemConfig]]
    extra_batches: ClassVar[tuple[str, ...]] = ()
    """Names of further independent batches the objective reads from `batch.extra`."""

    def __init__(self, config: SystemConfig, spec: DataSpec):
        super().__init__()
        self.config, self.spec = config.fitted(spec), spec
        self.training_seed = 0
        self.step = 0
        self.rank = 0  # of this process among those that train together

    # What a paper writes -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def blocks(self) -> tuple[Block, ...]:
        """The named parts of the representation."""

    def infer(self, q: Trace, batch: Batch) -> None:
        """Recognition program: samples every block of the batch into `q`. Systems that encode have one.

        A block with a time axis may be one site, or one site for each step: `z[0]`, `z[1]`, ...
        """
        raise UnweaveError(f"{self.name()} has no recognition program: it cannot infer codes")

    def generate(self, p: Trace, context: Batch) -> None:
        """Generative program: samples every block and then the observation "x" into `p`. Systems that decode have one.

        `context` carries what generation depends on besides the blocks (groups, actions, lengths), never "x" itself.
        """
        raise UnweaveError(f"{self.name()} has no generative program: it cannot make observations")

    @abstractmethod
    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """The named costs a player minimises."""

    @property
    def reads(self) -> Reads:
        """Factors of the data that batches carry as groups and labels; none unless the paper needs them."""
        return Reads()

    def order(self, table: Table, seed: int, stream: int = 0) -> Order:
        """In which order rows are trained on; permutations unless the paper needs groups or shares.

        stream: 0 for the batches themselves, 1, 2, ... for each of `extra_batches`
        """
        return Permuted(table.rows, self.config.training.batch_size, seed, stream)

    def labelled(self, table: Table) -> Mapping[str, np.ndarray]:
        """Label name -> row numbers whose label training may use; all that are known when a name is absent."""
        return {}

    def players(self) -> tuple[Player, ...]:
        """Who is optimised; one player with all parameters unless the paper says otherwise."""
        return (Player("model", (self,), self.config.training.optimiser),)

    # What follows from it ----------------------------------------------------------------------------------------

    @classmethod
    def name(cls) -> str:
        """The registry name: the module's, since there is one paper per file."""
        return cls.__module__.rsplit(".", 1)[-1] if cls.__module__.startswith("unweave.") else _snake(cls.__name__)

    @classmethod
    def capabilities(cls) -> tuple[type[Capability], ...]:
        return capabilities(cls)

    def posterior(
        self, batch: Batch, given: GivenMapping | None = None, *, samples: int | None = None, centred: bool = False
    ) -> Trace:
        """Run the recognition program: a trace q with every block."""
        q = Trace(given, rows=batch.rows, samples=samples, centred=centred)
        self.infer(q, batch)
        if q.unused:
            raise unknown_name("variable", q.unused[0], q.names)
        for block in self.blocks:
            if not q.has(block.name):  # the generative program would draw it from the prior, without a word
                raise UnweaveError(
                    f"the recognition program of {self.name()} does not sample block {block.name!r}: "
                    f"it samples {', '.join(q.names) or 'nothing'}; add q.sample({block.name!r}, ...)"
                )
        return q

    def joint(self, given: GivenMapping, context: Batch, *, samples: int | None = None, centred: bool = False) -> Trace:
        """Run the generative program on given values: a trace p with every block and the observation."""
        p = Trace(given, rows=context.rows, samples=samples, centred=centred)
        self.generate(p, replace(context, x=None))
        if p.unused:
            raise unknown_name("block", p.unused[0], [name for name in p.names if name != "x"])
        return p

    @torch.no_grad()
    def encode(self, batch: Batch) -> Codes:
        """Codes of a batch: the centre and spread of each block's posterior."""
        self.require(Encodes)
        with _evaluating(self):
            q = self.posterior(batch.to(self.device), centred=True)
        values: dict[str, np.ndarray] = {}
        spreads: dict[str, np.ndarray] = {}
        for block in self.blocks:
            values[block.name] = _collect(q, block, lambda site: centre(site.distribution))
            if all(spread(site.distribution) is not None for site in q.steps(block.name)):
                spreads[block.name] = _collect(q, block, lambda site: spread(site.distribution))
        return Codes(self.blocks, values, spreads)

    @torch.no_grad()
    def render(self, codes: Codes, context: Batch | None = None) -> np.ndarray:
        """(N, *shape) mean observations of codes."""
        self.require(Decodes)
        given: dict[str, Tensor | Given] = {}
        for block in codes.blocks:
            kind = torch.long if block.kind == "discrete" else torch.float32
            value = torch.as_tensor(np.array(codes[block.name]), dtype=kind, device=self.device)
            given[block.name] = Given(value, reused=True)
        with _evaluating(self):
            p = self.joint(given, (context or Batch(rows=codes.rows)).to(self.device), centred=True)
        return _to_array(centre(p.site("x").distribution))

    @torch.no_grad()
    def draw(self, rows: int, seed: int) -> Codes:
        """Codes drawn from the prior."""
        self.require(Samples)
        with _evaluating(self), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            p = self.joint({}, Batch(rows=rows))
        return Codes(self.blocks, {block.name: _collect(p, block, lambda site: site.value) for block in self.blocks})

    def require(self, capability: type[Capability]) -> None:
        """Raise unless it has a capability."""
        if not isinstance(self, capability):
            can = ", ".join(marker.__name__ for marker in self.capabilities()) or "nothing of the kind"
            raise UnweaveError(f"{self.name()} lacks the capability {capability.__name__}: it has {can}")

    # Training: players alternate, weights are applied once, nothing else is hidden here ----------------------------

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""
        return next(self.parameters()).device

    def optimisers(self) -> list[torch.optim.Optimizer]:
        """One for each player, in their order."""
        return [player.optimiser.build(list(player.parameters())) for player in self.players()]

    def update(
        self,
        batch: Batch,
        optimisers: Sequence[torch.optim.Optimizer],
        backward: Callable[[Tensor], Any] = Tensor.backward,
    ) -> dict[str, Tensor]:
        """One step: an update of each player whose turn it is; returns the terms to log.

        optimisers: what `optimisers()` gave
        backward:   of the loss; distributed training has its own
        """
        device = self.device if batch.x is None else batch.x.device
        _seed_draws(derive_seed(self.training_seed, self.step, self.rank), device)
        record: dict[str, Tensor] = {}
        turns = self._turns
        for (player, own, others), optimiser in zip(turns, optimisers, strict=True):
            if self.step % player.every:
                continue
            with _without_gradient(others):
                terms = self.objective(player.name, batch, self.step)
                total = terms.total(self.step)
                if not math.isfinite(total.item()):
                    terms.require_finite(self.step, player.name)
                    raise TrainingError(
                        f"the weighted sum of the terms became {total.item()} at step {self.step}: lower a weight"
                    )
                if total.requires_grad:  # a player all of whose weights are 0 at this step does not move
                    for parameter in own:  # as `zero_grad` does, without its bookkeeping
                        parameter.grad = None
                    backward(total)
                    if player.optimiser.clip is not None:
                        nn.utils.clip_grad_norm_(own, player.optimiser.clip)
                    player.optimiser.set_rate(optimiser, self.step)
                    optimiser.step()
            prefix = "" if len(turns) == 1 else f"{player.name}/"
            record.update({prefix + name: value for name, value in terms.logged(self.step, total).items()})
        self.step += 1
        return record

    @cached_property
    def _turns(self) -> list[tuple[Player, list[nn.Parameter], list[nn.Parameter]]]:
        """Each player with its parameters and those of everyone else; found once, a step has no time to look."""
        return [(player, list(player.parameters()), _others(self, player)) for player in self.players()]


def _seed_draws(seed: int, device: torch.device) -> None:
    """Seed the generators that a step on this device draws from.

    `torch.manual_seed` also tells every kind of accelerator that was not used yet, which keeps the call for later with
    its traceback: milliseconds each step, and memory that grows with their number.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


def only_requires_grad(system: nn.Module, player: Player) -> _without_gradient:
    """While it lasts, only this player's parameters require a gradient; afterwards all is as before."""
    return _without_gradient(_others(system, player))


def _others(system: nn.Module, player: Player) -> list[nn.Parameter]:
    own = {id(parameter) for parameter in player.parameters()}
    return [parameter for parameter in system.parameters() if id(parameter) not in own]


class _without_gradient:
    """While it lasts, these parameters require no gradient; afterwards those that did require it again."""

    def __init__(self, parameters: Sequence[nn.Parameter]):
        self.parameters = parameters

    def __enter__(self) -> None:
        self.stopped = [parameter for parameter in self.parameters if parameter.requires_grad]
        for parameter in self.stopped:
            parameter.requires_grad_(False)

    def __exit__(self, *_: object) -> None:
        for parameter in self.stopped:
            parameter.requires_grad_(True)


class _evaluating:
    """While it lasts, the module is in evaluation mode; afterwards in the mode it had."""

    def __init__(self, module: nn.Module):
        self.module, self.was_training = module, module.training

    def __enter__(self) -> None:
        self.module.eval()

    def __exit__(self, *_: object) -> None:
        self.module.train(self.was_training)


def _collect(trace: Trace, block: Block, read: Callable[[Site], Any]) -> np.ndarray:
    """(B, *shape) of a block: from its site, or from the sites of its steps along the axis after the batch."""
    if block.name in trace:
        return _to_array(read(trace.site(block.name)))
    return _to_array(torch.stack([read(site) for site in trace.steps(block.name)], dim=1))


def _to_array(value: Tensor) -> np.ndarray:
    return value.detach().cpu().numpy()


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _is_system(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, System) and not getattr(value, "__abstractmethods__", None)


SYSTEMS: Registry[type[System]] = Registry("system", "unweave.systems", _is_system, lambda value: value.name())
