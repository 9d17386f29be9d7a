"""The decoder: batches, memory, and of a moving slider only the latest position."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from unweave.explorer import decoder as module
from unweave.explorer.decoder import BusyError, Decoder, SupersededError


class Renderer:
    """Pictures are the codes' own bytes; a gate holds it up."""

    def __init__(self):
        self.batches, self.gate = [], threading.Event()
        self.gate.set()

    def __call__(self, codes):
        self.gate.wait(10)
        self.batches.append(len(codes))
        if np.isnan(codes).any():
            raise ValueError("no picture of this")
        return [row.tobytes() for row in codes]


@pytest.fixture
def renderer():
    return Renderer()


@pytest.fixture
def executor():
    with ThreadPoolExecutor(1) as made:
        yield made


def code(*values):
    return np.array([values], dtype=np.float32)


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 10))


async def held(renderer, decoder):
    """A first request that is being rendered, so that those after it wait."""
    renderer.gate.clear()
    first = asyncio.create_task(decoder.pictures(code(-1.0)))
    while decoder.waiting or not decoder._task:
        await asyncio.sleep(0.001)
    return first


def test_each_request_gets_its_own_pictures(renderer, executor):
    async def ask():
        decoder = Decoder(renderer, executor)
        return await asyncio.gather(*(decoder.pictures(code(n, n + 1)) for n in range(20)))

    for number, found in enumerate(run(ask())):
        assert found == [code(number, number + 1)[0].tobytes()]


def test_what_waits_is_rendered_together(renderer, executor):
    async def ask():
        decoder = Decoder(renderer, executor)
        first = await held(renderer, decoder)
        others = [asyncio.create_task(decoder.pictures(code(n))) for n in range(30)]
        await asyncio.sleep(0.01)
        renderer.gate.set()
        await asyncio.gather(first, *others)

    run(ask())
    assert renderer.batches == [1, 30]


def test_a_batch_has_a_largest_size(renderer, executor, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 8)

    async def ask():
        decoder = Decoder(renderer, executor)
        first = await held(renderer, decoder)
        others = [asyncio.create_task(decoder.pictures(np.full((3, 1), n, dtype=np.float32))) for n in range(4)]
        large = asyncio.create_task(decoder.pictures(np.arange(20, dtype=np.float32)[:, None]))
        await asyncio.sleep(0.01)
        renderer.gate.set()
        await asyncio.gather(first, *others)
        return await large

    assert len(run(ask())) == 20
    assert renderer.batches == [1, 6, 6, 20]


def test_of_one_view_only_the_latest_is_rendered(renderer, executor):
    async def ask():
        decoder = Decoder(renderer, executor)
        first = await held(renderer, decoder)
        moved = [asyncio.create_task(decoder.pictures(code(n), view="slider")) for n in range(50)]
        other = asyncio.create_task(decoder.pictures(code(99.0), view="another"))
        await asyncio.sleep(0.01)
        assert decoder.waiting == 2
        renderer.gate.set()
        await first
        return await asyncio.gather(*moved, other, return_exceptions=True)

    *moved, other = run(ask())
    assert all(isinstance(answer, SupersededError) for answer in moved[:-1])
    assert moved[-1] == [code(49.0)[0].tobytes()]
    assert other == [code(99.0)[0].tobytes()]
    assert renderer.batches == [1, 2]


def test_pictures_are_remembered_until_the_weights_change(renderer, executor, monkeypatch):
    stamp = [1]

    async def ask():
        decoder = Decoder(renderer, executor, lambda: stamp[0])
        for _ in range(3):
            await decoder.pictures(code(1.0))
        assert renderer.batches == [1]
        stamp[0] = 2
        await decoder.pictures(code(1.0))

    run(ask())
    assert renderer.batches == [1, 1]


def test_memory_is_bounded_and_forgets_the_oldest(renderer, executor, monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 4 * len(code(0.0).tobytes()))  # the renderer's pictures are the codes

    async def ask():
        decoder = Decoder(renderer, executor)
        for number in range(6):
            await decoder.pictures(code(number))
        assert len(decoder._kept) == 4
        await decoder.pictures(code(5.0))
        await decoder.pictures(code(0.0))

    run(ask())
    assert renderer.batches == [1] * 7


def test_the_queue_is_bounded(renderer, executor, monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 5)

    async def ask():
        decoder = Decoder(renderer, executor)
        first = await held(renderer, decoder)
        waiting = [asyncio.create_task(decoder.pictures(code(n))) for n in range(5)]
        await asyncio.sleep(0.01)
        with pytest.raises(BusyError, match="try again"):
            await decoder.pictures(code(100.0))
        renderer.gate.set()
        await asyncio.gather(first, *waiting)

    run(ask())


def test_an_error_reaches_everyone_in_the_batch_and_the_next_goes_on(renderer, executor):
    async def ask():
        decoder = Decoder(renderer, executor)
        with pytest.raises(ValueError, match="no picture"):
            await decoder.pictures(code(np.nan))
        return await decoder.pictures(code(2.0))

    assert run(ask()) == [code(2.0)[0].tobytes()]


def test_a_page_that_went_away_is_not_rendered_for(renderer, executor):
    async def ask():
        decoder = Decoder(renderer, executor)
        first = await held(renderer, decoder)
        gone = asyncio.create_task(decoder.pictures(code(1.0)))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.sleep(0.01)
        renderer.gate.set()
        await first
        await decoder.pictures(code(3.0))

    run(ask())
    assert renderer.batches == [1, 1]
