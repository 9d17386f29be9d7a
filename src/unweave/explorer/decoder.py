"""Codes to pictures for a page that moves: batched, remembered, and of a moving slider only the latest position.

All work on tensors happens in one thread. While it renders one batch, requests wait; the next batch takes all that
wait at once. A request that belongs to a view (one picture on one page) replaces the one of that view that still waits,
so the queue never holds more than one request for each view, however fast a slider moves.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from unweave.base.errors import UnweaveError

AT_ONCE = 256
"""Most codes in a batch; a request with more is rendered alone."""
MOST_WAITING = 256
"""Most requests that wait, of all pages together."""
REMEMBERED = 50_000_000
"""Bytes of pictures that are kept."""


class SupersededError(Exception):
    """A later request of the same view took this one's place: nobody waits for it any more."""


class BusyError(UnweaveError):
    """Too many requests wait."""


@dataclass(eq=False)
class _Waiting:
    codes: np.ndarray
    answer: asyncio.Future[list[bytes]]
    keys: list[bytes] = field(default_factory=list)


class Decoder:
    """Pictures of codes, in the order of the questions, batch by batch.

    render: (n, D) codes -> n pictures as files; runs in `executor`
    stamp:  changes when the weights do; pictures made under another stamp are forgotten
    """

    def __init__(
        self, render: Callable[[np.ndarray], list[bytes]], executor: Executor, stamp: Callable[[], object] = lambda: 0
    ):
        self._render, self._executor, self._stamp = render, executor, stamp
        self._waiting: OrderedDict[object, _Waiting] = OrderedDict()
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._kept_stamp: object = None
        self._task: asyncio.Task[None] | None = None
        self.batches = 0
        """How many batches were rendered, for tests and benchmarks."""

    @property
    def waiting(self) -> int:
        """How many requests wait now."""
        return len(self._waiting)

    async def pictures(self, codes: np.ndarray, view: str | None = None) -> list[bytes]:
        """Files of n pictures of (n, D) codes.

        view: which picture on which page they are for; a later request for it makes this one raise SupersededError
        """
        codes = np.ascontiguousarray(codes, dtype=np.float32)
        if self._kept_stamp != self._stamp():
            self._kept.clear()
            self._kept_bytes = 0
            self._kept_stamp = self._stamp()
        keys = [row.tobytes() for row in codes]
        if all(key in self._kept for key in keys):
            for key in keys:
                self._kept.move_to_end(key)
            return [self._kept[key] for key in keys]
        question = _Waiting(codes, asyncio.get_running_loop().create_future(), keys)
        name: object = ("view", view) if view is not None else question
        before = self._waiting.pop(name, None)
        if before is not None and not before.answer.done():
            before.answer.set_exception(SupersededError())
        if len(self._waiting) >= MOST_WAITING:
            raise BusyError(f"{MOST_WAITING} pictures wait to be made already: try again in a moment")
        self._waiting[name] = question
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await question.answer

    async def _work(self) -> None:
        """Batches until nobody waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch: list[_Waiting] = []
            while self._waiting and (
                not batch or sum(len(each.codes) for each in batch) + len(self._next().codes) <= AT_ONCE
            ):
                batch.append(self._waiting.popitem(last=False)[1])
            batch = [each for each in batch if not each.answer.done()]  # its page may have gone away
            if not batch:
                continue
            stamp = self._stamp()
            try:
                made = await loop.run_in_executor(
                    self._executor, self._render, np.concatenate([each.codes for each in batch])
                )
            except Exception as error:  # every page that waits hears of it
                for each in batch:
                    if not each.answer.done():
                        each.answer.set_exception(error)
                continue
            self.batches += 1
            start = 0
            for each in batch:
                own = made[start : start + len(each.codes)]
                start += len(each.codes)
                if stamp == self._kept_stamp:
                    self._keep(each.keys, own)
                if not each.answer.done():
                    each.answer.set_result(own)

    def _next(self) -> _Waiting:
        return next(iter(self._waiting.values()))

    def _keep(self, keys: list[bytes], pictures: list[bytes]) -> None:
        for key, picture in zip(keys, pictures, strict=True):
            if key not in self._kept:
                self._kept_bytes += len(picture)
            self._kept[key] = picture
            self._kept.move_to_end(key)
        while self._kept_bytes > REMEMBERED:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])
