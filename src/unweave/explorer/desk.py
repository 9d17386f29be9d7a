"""The threads behind the page: who works on which run, and how many may wait."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from starlette.requests import Request

from unweave.base.errors import unknown_name
from unweave.explorer.decoder import BusyError, Decoder
from unweave.explorer.opened import OpenedRun, _State

MOST_WAITING = 64
"""Requests that wait for the thread that works on runs."""


class Desk:
    """The runs of the page, and the threads that work on them.

    One thread is for what is asked of runs, one for the pictures of sliders, which need not wait behind it, and one
    draws files.
    """

    def __init__(self, runs: Sequence[OpenedRun]):
        self.runs = {run.name: run for run in runs}
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="unweave-runs")
        self.sliders = ThreadPoolExecutor(1, thread_name_prefix="unweave-sliders")
        # One: the library that draws figures is not made for several threads.
        self.pencil = ThreadPoolExecutor(1, thread_name_prefix="unweave-files")
        self.waiting = 0
        self.decoders = {
            run.name: Decoder(functools.partial(_render, run), self.sliders, functools.partial(_stamp_of, run))
            for run in runs
        }

    def find(self, request: Request) -> OpenedRun:
        name = request.path_params["run"]
        if name not in self.runs:
            raise unknown_name("run", name, self.runs)
        return self.runs[name]

    def warm(self) -> None:
        """Open the run that the page opens first, while the browser still starts; the page hears what goes wrong."""
        first = next(iter(self.runs.values()))
        self.executor.submit(first.prepare)

    async def do(self, run: OpenedRun, work: Callable[[_State], Any]) -> Any:
        """What a function makes of a run's present state, in the thread for that."""
        return await self._queued(lambda: work(run.state()))

    async def prepared(self, run: OpenedRun) -> _State:
        """The run's present state, ready to render; that takes a while only when its weights are new."""
        if not run.is_prepared():
            await self._queued(run.prepare)
        assert run.prepared is not None
        return run.prepared

    async def _queued(self, work: Callable[[], Any]) -> Any:
        if self.waiting >= MOST_WAITING:
            raise BusyError(f"{MOST_WAITING} requests wait already: try again in a moment")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.executor, work)
        finally:
            self.waiting -= 1

    async def draw(self, work: Callable[[], bytes]) -> bytes:
        """A file."""
        return await asyncio.get_running_loop().run_in_executor(self.pencil, work)


def _render(run: OpenedRun, codes: np.ndarray) -> list[bytes]:
    assert run.prepared is not None
    return run.prepared.render(codes)


def _stamp_of(run: OpenedRun) -> object:
    return None if run.prepared is None else run.prepared.stamp
