"""Small runs for the explorer's tests, trained once for all of them, and a browser for those of the page."""

import asyncio
import shutil

import pytest
from browser import FLAGS, PATIENCE, Expected, Served, Visit, chromium_path

from unweave.runs import train

SMALL = {"nets.hidden": [16], "training.steps": 20, "training.batch_size": 16}
# Without a price on information two dimensions are in use after a moment, and four are not.
INFORMED = {
    "blocks": "digit=concrete(10), style=normal(6)",
    "alpha": 0.0,
    "beta": 1.0,
    "gamma": 1.0,
    "nets.hidden": [32],
    "training.steps": 120,
    "training.batch_size": 32,
    "training.optimiser.lr": 1e-2,
}
CLIPS = {"dims": 2, "nets.kind": "dense", "nets.hidden": [16], "training.steps": 30, "training.batch_size": 16}


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Folder with the runs `hf` (a category and a style), `ml` (groups) and `plain` (one block), the first scored."""
    folder = tmp_path_factory.mktemp("explored")
    blocks = {"blocks": "digit=concrete(10), style=normal(4)"}
    run = train("hfvae", "digits", settings={**SMALL, **blocks}, run=folder / "hf", progress=False, threads=1)
    run.encode_split()
    run.evaluate(["mig", "information", "dci_lasso"])
    train("mlvae", "digits", settings=SMALL, run=folder / "ml", progress=False, threads=1)
    train("betavae", "digits", settings=SMALL, run=folder / "plain", progress=False, threads=1)
    return folder


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of the run `hf` that a test may damage."""
    return shutil.copytree(trained / "hf", tmp_path / "hf")


# The page in a browser -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def shown(tmp_path_factory):
    """Folder with runs worth a look: `hf` (some dimensions in use, scored), `ml` (groups), `plain` and `clips`."""
    folder = tmp_path_factory.mktemp("shown")
    run = train("hfvae", "digits", settings=INFORMED, run=folder / "hf", progress=False, threads=1)
    run.encode_split()
    run.evaluate(["mig", "information", "dci_forest"])
    train("mlvae", "digits", settings=SMALL, run=folder / "ml", progress=False, threads=1)
    train("betavae", "digits", settings=SMALL, run=folder / "plain", progress=False, threads=1)
    data = {"clips": 60, "steps": 4, "size": 32, "digits": "sklearn"}
    train("video", "moving_digits", data_settings=data, settings=CLIPS, run=folder / "clips", progress=False, threads=1)
    return folder


@pytest.fixture(scope="session")
def served(chromium, shown):
    """A server of these four runs."""
    server = Served([shown / name for name in ("hf", "ml", "plain", "clips")])
    yield server
    server.stop()


@pytest.fixture(scope="session")
def chromium():
    """A browser, and what marks its event loop as running."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: `make test` installs it")
    path = chromium_path()
    if path is None:
        pytest.skip("no Chromium: the explorer's page is not tested; `make chromium` gets it or says how")
    manager = sync_api.sync_playwright()
    browser = manager.start().chromium.launch(executable_path=path, args=FLAGS, timeout=1000 * PATIENCE)
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(
        None
    )  # playwright leaves it set: between its calls other tests may run loops of their own
    yield browser, loop
    asyncio._set_running_loop(loop)
    browser.close()
    manager.__exit__()
    asyncio._set_running_loop(None)


@pytest.fixture
def browser(chromium):
    made, loop = chromium
    asyncio._set_running_loop(loop)
    yield made
    asyncio._set_running_loop(None)


@pytest.fixture
def serve(chromium):
    """Starts servers of a test's own; they stop after its pages are closed."""
    made = []

    def start(*paths, **options):
        made.append(Served(paths, **options))
        return made[-1]

    yield start
    for server in made:
        server.stop()


@pytest.fixture
def visit(browser, served, serve):
    """Opens pages of the server; an error in their consoles that the test does not expect fails it."""
    made = Visit(browser, served.address)
    yield made
    made.close()
    assert made.unexpected() == []


@pytest.fixture(scope="session")
def hf(shown):
    return Expected(shown / "hf")


@pytest.fixture(scope="session")
def ml(shown):
    return Expected(shown / "ml")


@pytest.fixture(scope="session")
def plain(shown):
    return Expected(shown / "plain")


@pytest.fixture(scope="session")
def clips(shown):
    return Expected(shown / "clips")
