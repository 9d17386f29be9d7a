"""Checkpoints as safetensors: weights, optimiser state and step in one file that cannot run code.

Tensors are named `weights/<parameter>`, `optimiser.<player>/<parameter number>/<quantity>` and, for the terms of the
steps since the last row of the log, `log/<term>`; the file's header holds the step, the seconds of training and, as
JSON, whatever of the optimiser state is not a tensor.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from unweave.base.errors import RunError, TrainingError
from unweave.base.files import replacing
from unweave.base.shell import quoted
from unweave.core.system import System
from unweave.runs.log import Tally


def save_checkpoint(path: Path, system: System, optimisers: list[torch.optim.Optimizer], tally: Tally) -> None:
    """Write everything that training needs to go on from `system.step`; the old file stays until this one is whole."""
    tensors = _weights(system)
    tensors.update((f"log/{name}", torch.stack(values).cpu()) for name, values in tally.values.items())
    scalars: dict[str, Any] = {}
    for number, optimiser in enumerate(optimisers):
        for parameter, state in optimiser.state_dict()["state"].items():
            for quantity, value in state.items():
                key = f"optimiser.{number}/{parameter}/{quantity}"
                if isinstance(value, Tensor):
                    tensors[key] = value.detach().cpu().contiguous()
                else:
                    scalars[key] = value
    header = {"step": str(system.step), "system": system.name(), "scalars": json.dumps(scalars)}
    _write(path, tensors, {**header, "seconds": f"{tally.seconds:.3f}"})


def save_weights(path: Path, system: System) -> None:
    """Write the weights alone, for others to use."""
    _write(path, _weights(system), {"step": str(system.step), "system": system.name()})


def _weights(system: System) -> dict[str, Tensor]:
    tensors = {}
    for name, value in system.state_dict().items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise TrainingError(
                f"weight {name!r} is NaN or infinite after step {system.step}: it was not saved, the last good weights "
                "are kept; try a lower learning rate or gradient clipping"
            )
        tensors[f"weights/{name}"] = value.detach().cpu().contiguous().clone()
    return tensors


def _write(path: Path, tensors: dict[str, Tensor], header: dict[str, str]) -> None:
    try:
        with replacing(path) as temporary:
            save_file(tensors, str(temporary), metadata=header)
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"cannot write {path}: {_reason(error)}; the last good checkpoint is kept: make room, "
            f"then `unweave resume {quoted(path.parent)}`"
        ) from error


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint or weights file as it was when it was read, once."""

    path: Path
    tensors: dict[str, Tensor]
    header: dict[str, str]

    @property
    def step(self) -> int:
        """The step it was written after."""
        return int(self.header.get("step", 0))

    def load_weights(self, system: System) -> None:
        """Put the weights into a system of the same kind and settings."""
        if self.header.get("system", system.name()) != system.name():
            raise RunError(f"{self.path} holds weights of {self.header['system']}: this run is of {system.name()}")
        weights = self._named("weights/")
        expected = system.state_dict()
        wrong = sorted(expected.keys() ^ weights.keys())
        wrong = wrong or [n for n in expected if expected[n].shape != weights[n].shape]
        if wrong:
            raise RunError(
                f"{self.path} does not fit {system.name()} with these settings (first difference: {wrong[0]!r}): "
                "the run's settings or weights were changed, or the run used its own networks; pass the same ones"
            )
        system.load_state_dict(weights)
        system.step = self.step

    def load_optimisers(self, optimisers: list[torch.optim.Optimizer]) -> None:
        """Put the optimiser state back."""
        values: dict[str, Any] = {**json.loads(self.header.get("scalars", "{}")), **self.tensors}
        for number, optimiser in enumerate(optimisers):
            state: dict[int, dict[str, Any]] = {}
            prefix = f"optimiser.{number}/"
            for key, value in values.items():
                if key.startswith(prefix):
                    parameter, quantity = key.removeprefix(prefix).split("/")
                    state.setdefault(int(parameter), {})[quantity] = value
            optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})

    def tally(self, device: torch.device) -> Tally:
        """What the next row of the log has so far."""
        values = {name: list(value.to(device).unbind()) for name, value in self._named("log/").items()}
        return Tally(values, float(self.header.get("seconds", 0)))

    def _named(self, prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint or weights in a file."""
    return Checkpoint(path, *_read(path))


def load_weights(path: Path, system: System) -> None:
    """Put the weights of a checkpoint or weights file into a system of the same kind and settings."""
    read_checkpoint(path).load_weights(system)


def checkpoint_step(path: Path) -> int:
    """The step a checkpoint was written after."""
    return int(_read(path, tensors=False)[1].get("step", 0))


def _read(path: Path, tensors: bool = True) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(str(path), framework="pt") as file:
            header = file.metadata() or {}
            values = {name: file.get_tensor(name) for name in file.keys()} if tensors else {}  # noqa: SIM118 - not a dict
    except FileNotFoundError:
        raise RunError(f"there are no weights at {path}: the run was never trained, or the file was removed") from None
    except (SafetensorError, OSError) as error:
        raise RunError(
            f"the weights at {path} are damaged ({_reason(error)}): restore the file or train again"
        ) from None
    return values, header
