"""The type of every path on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class GivenPath(click.Path):
    """A path, which is not empty: `--run "$UNSET"` would else mean the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip():
            self.fail("an empty text was given: name a file or folder, or write . for this folder", param, ctx)
        return super().convert(value, param, ctx)


PATH = GivenPath()
