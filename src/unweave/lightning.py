"""A system as a LightningModule, for people who train with Lightning: several GPUs or processes, mixed precision, ...

    import lightning.pytorch as pl
    from unweave.lightning import LightningSystem

    pl.Trainer(max_epochs=1, devices=2).fit(LightningSystem(system), batches)

Needs the extra: pip install 'unweave[lightning]'. `unweave.train` has a loop of its own and does without.
"""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch

from unweave.core.batch import Batch
from unweave.core.system import System


class LightningSystem(pl.LightningModule):
    """Players take turns inside each training step (`System.update`), so optimisation is manual in Lightning's sense.

    Batches are `Batch` objects, such as `unweave.batches.assemble.Batches` yields. Terms are logged by name.
    """

    def __init__(self, system: System):
        super().__init__()
        self.system = system
        self.automatic_optimization = False

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return self.system.optimisers()

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch.to(device)

    def training_step(self, batch: Batch, batch_idx: int) -> dict[str, Any]:
        self.system.rank = self.global_rank
        wrapped = self.optimizers()
        optimisers: Any = wrapped if isinstance(wrapped, list) else [wrapped]
        record = self.system.update(batch, optimisers, self.manual_backward)
        self.log_dict(record, batch_size=batch.rows)
        return {"record": record}
