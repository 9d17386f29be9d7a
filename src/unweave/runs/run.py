"""A run: a directory that each step only adds to, and what can be done with it."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from unweave.base.errors import DataError, RunError, unknown_name
from unweave.base.files import write_json, write_text
from unweave.batches.assemble import assemble
from unweave.batches.orders import group_numbers
from unweave.core.batch import Batch
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.codes import Codes
from unweave.core.dataspec import DataSpec
from unweave.core.score import Score
from unweave.core.system import SYSTEMS, System
from unweave.data import DATA, DataSet, DataSource, Given, Split, data_difference, read_groups, row_numbers
from unweave.media import Shown
from unweave.operations import OPERATIONS, Inputs, Operation
from unweave.runs.arguments import check_data, check_modules
from unweave.runs.checkpoint import checkpoint_step, load_weights
from unweave.runs.checkup import Checkup, read_checkup
from unweave.runs.codes_file import from_arrays, load_arrays, write_codes
from unweave.runs.encoding import ENCODING_BATCH, as_codes, by_name, decode_in_batches, encode_in_batches
from unweave.runs.log import read_log
from unweave.runs.manifest import Manifest, read_manifest
from unweave.runs.recognised import recognise
from unweave.runs.sample import SAMPLE, read_sample
from unweave.runs.scored import REFERENCE_ROWS, score_rows
from unweave.runs.threads import used

if TYPE_CHECKING:
    from unweave.metrics import Evaluation


class Run:
    """A trained (or training) system with its data, codes, scores and pictures.

    run.json            system, settings, data, seed            state.safetensors    last checkpoint
    environment.json    versions                                weights.safetensors  final weights
    log.csv, tensorboard/                                       codes.npz, scores.json, scores.csv
    checkup.json        what was found at the end of training   report.html, citations.bib
    pictures/           results of operations
    sample.npz          rows that stand for the data where the run travels without them
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        *,
        dataset: DataSet | None = None,
        system: System | None = None,
        modules: dict[str, nn.Module] | None = None,
    ):
        if dataset is not None:
            check_data(dataset)
        self.path, self.manifest = path, manifest
        self._dataset, self._system = dataset, system
        self._given = dataset is not None
        self._known: DataSet | None = None  # the data that were found to be those it was trained on
        self._modules = dict(modules or {})
        self._said: set[str] = set()

    @classmethod
    def open(
        cls, path: str | Path, *, system: str | None = None, data: DataSet | None = None, **modules: nn.Module
    ) -> Run:
        """The run in a directory.

        system:  fail unless the run is of this system
        data:    the data set, for runs trained on data in memory
        modules: the networks of a run trained with its own
        """
        path = Path(path)
        manifest = read_manifest(path)
        if system is not None and manifest.system != system:
            raise RunError(f"{path} is a run of {manifest.system}, not of {system}: give a run of {system}")
        if modules:
            check_modules(cls.open, SYSTEMS[manifest.system], modules)
        return cls(path, manifest, dataset=data, modules=modules)

    def __repr__(self) -> str:
        return (
            f"<run {self.path}: {self.manifest.system} on {self.manifest.data or 'data in memory'}, {self.steps} steps>"
        )

    # What is in it -----------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Steps of training behind the weights: those that were read, else those on disk."""
        if self._system is not None:  # another process may train meanwhile, and what is made here is of these weights
            return self._system.step
        path = self._weights_path()
        return checkpoint_step(path) if path.exists() else 0

    def _weights_path(self) -> Path:
        state = self.path / "state.safetensors"
        return state if state.exists() else self.path / "weights.safetensors"

    def build_system(self) -> System:
        """A fresh system with the run's settings, without its weights."""
        cls = SYSTEMS[self.manifest.system]
        config = cls.config_class.from_dict(self.manifest.settings)
        return cls(config, DataSpec.from_dict(self.manifest.data_spec), **self._modules)

    def system(self) -> System:
        """The trained system, in evaluation mode."""
        if self._system is None:
            built = self.build_system()
            load_weights(self._weights_path(), built)
            self._system = built.eval()
        return self._system

    def source(self) -> DataSource | None:
        """Where its data come from; None for data in memory."""
        return DATA[self.manifest.data](**self.manifest.data_settings) if self.manifest.data else None

    @property
    def sampled(self) -> bool:
        """Whether a sample that travels with the run stands for its data: where no others were given."""
        return not self._given and (self.path / SAMPLE).exists()

    def dataset(self) -> DataSet:
        """The data the run was trained on, all splits; or the sample of them that travels with the run."""
        if self._dataset is None:
            self._dataset = read_sample(self.path, self.manifest)
        if self._dataset is None:
            source = self.source()
            if source is None:
                raise RunError(f"{self.path} was trained on data in memory: open it with Run.open(path, data=...)")
            self._dataset = source.load()
        if self._dataset is not self._known:
            self._check_data(self._dataset)
            self._known = self._dataset
        return self._dataset

    def _check_data(self, found: DataSet) -> None:
        """Raise DataError unless these are the data the run was trained on, or the sample that travels with it."""
        expected = DataSpec.from_dict(self.manifest.data_spec)
        spec = found.spec
        if (spec.shape, spec.values, spec.levels) != (expected.shape, expected.values, expected.levels):
            raise DataError(
                f"{found.name} has {spec.values} observations of shape {spec.shape} and the run was trained "
                f"on {expected.values} ones of shape {expected.shape}: the data changed since"
            )
        other = "" if self.sampled else data_difference(found, self.manifest.data_digest)
        if other:
            raise DataError(
                f"{found.name} is not what {self.path} was trained on, {other}: give those data; new observations are "
                "encoded by `unweave encode RUN --data` and run.encode(...)"
            )

    def split_rows(self) -> dict[str, np.ndarray]:
        """Row numbers of each split: train, and where they have any, validation, test and held_out.

        A sample that travels with the run is all test rows.
        """
        if self.sampled:
            return {"test": np.arange(len(self.dataset()))}
        rows = Split.from_dict(self.manifest.split).rows(self.dataset())
        if len(rows["train"]) != self.manifest.data_spec["size"]:
            raise DataError(
                f"{self.dataset().name} now gives {len(rows['train'])} training rows and the run was trained on "
                f"{self.manifest.data_spec['size']}: the data changed since; give the data it was trained on"
            )
        return rows

    def checkup(self) -> Checkup | None:
        """What was found when training ended: dimensions in use, error against the mean; None for other weights."""
        found = read_checkup(self.path)
        return found if found is not None and found.step == self.steps else None

    def threads(self) -> list[int]:
        """The counts of CPU threads that training has had, one after the other; several where it chose."""
        return used(self.manifest, self.path)

    def log(self) -> dict[str, np.ndarray]:
        """Columns of the training log: step, seconds, one per term."""
        return read_log(self.path / "log.csv")

    # What can be done with it ------------------------------------------------------------------------------------

    def encode_rows(self, rows: Sequence[int] | np.ndarray, groups: Sequence[int] | np.ndarray | None = None) -> Codes:
        """Codes of the given rows of the data set, from the observations alone.

        groups: (n,) which group each row belongs to, for systems that accumulate evidence over groups; without it
                each row stands for itself
        """
        rows = row_numbers(rows)
        if rows.ndim != 1 or len(rows) == 0:
            raise DataError("there are no rows to encode: choose at least one")
        dataset = self.dataset()

        def batch(places: np.ndarray, together: np.ndarray | None) -> Batch:
            return assemble(dataset, rows[places], groups=together)

        return encode_in_batches(self.system(), batch, len(rows), groups)

    def encode(self, inputs: Any, groups: Any = None, say: Callable[[str], object] | None = None) -> Codes:
        """Codes of observations of your own, made what the run was trained on: size, channels, range.

        inputs: an array (one observation or a batch; images (C, H, W) or (H, W, C), grey ones also (H, W)), an image
                of Pillow, the path of an image, of a folder of images, of a .npy or .npz file, or a list of these
        groups: (n,) which group each belongs to, a mapping from file name to group, or the path of a table with them,
                for systems that accumulate evidence over groups; without it each stands for itself
        say:    told once what was done to the inputs, where anything was; a line on stderr unless given
        """
        system = self.system()
        system.require(Encodes)
        if groups is not None and system.reads.group is None:
            raise DataError(f"{system.name()} knows no groups: leave out groups")
        if isinstance(groups, (str, Path)):
            groups = read_groups(groups, system.reads.group)
        source = self.source() if self.manifest.data in DATA else None  # not of a data source of the user's own
        given = Given(inputs, DataSpec.from_dict(self.manifest.data_spec), source)

        def batch(places: np.ndarray, together: np.ndarray | None) -> Batch:
            group = None if together is None else torch.from_numpy(group_numbers(together))
            return Batch(rows=len(places), x=torch.from_numpy(given.observations(places)), group=group)

        codes = encode_in_batches(system, batch, len(given), by_name(groups, given.names)).named(given.names)
        if given.note and given.note not in self._said:
            self._said.add(given.note)
            (say or _to_stderr)(f"inputs: {given.note}")
        return codes

    def decode(self, codes: Codes | Mapping[str, Any] | np.ndarray) -> np.ndarray:
        """(n, *shape) float32 observations of codes, in the range of the training data.

        codes: what `encode` returns, changed or not; a mapping from block to (n, *shape) values; or an (n, D) array
               laid out as `codes.flat()`
        """
        system = self.system()
        system.require(Decodes)
        return decode_in_batches(system, as_codes(system, codes))

    def encode_split(self, split: str | None = None, most: int = REFERENCE_ROWS) -> Codes:
        """Encode up to `most` random rows of a split and keep the codes in codes.npz.

        split: train, validation, test, held_out or all; the test rows when not given, all when there are none
        """
        available = {**self.split_rows(), "all": np.arange(len(self.dataset()))}
        split = split or ("test" if "test" in available else "all")
        if split not in available:
            raise unknown_name("split of this run", split, available)
        rows = available[split]
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(self.manifest.seed).choice(rows, most, replace=False))
        codes = self.encode_rows(rows)
        write_codes(self.path / "codes.npz", codes, rows=rows, step=np.array(self.steps), split=np.array(split))
        return codes

    def _read_codes(self) -> tuple[Codes, np.ndarray]:
        """The kept codes and their rows; made anew when there are none or the weights have changed since."""
        label = self._code_label()
        if label is None or label[0] != self.steps:
            self.encode_split(None if label is None else label[1])
        arrays = self._load_codes()
        return from_arrays(arrays, self.system().blocks), arrays["rows"]

    def _code_label(self) -> tuple[int, str] | None:
        """Training step and split of the kept codes, None when there are none."""
        if not (self.path / "codes.npz").exists():
            return None
        label = self._load_codes("step", "split")
        return int(label["step"]), str(label["split"])

    def _load_codes(self, *names: str) -> dict[str, np.ndarray]:
        """The named arrays of codes.npz, all when none is named."""
        path = self.path / "codes.npz"
        try:
            arrays: dict[str, np.ndarray] = load_arrays(path, *names)
            return arrays
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            raise RunError(
                f"the codes at {path} are damaged: remove the file and run `unweave encode {self.path}`"
            ) from None

    def codes(self) -> Codes:
        """The codes kept in codes.npz; made from the test split when there are none."""
        return self._read_codes()[0]

    def code_rows(self) -> np.ndarray:
        """Row numbers in the data set of the kept codes."""
        return self._read_codes()[1]

    def reconstruction(self, most: int = 2_000) -> dict[str, float]:
        """Mean cost -log p(x|z) in nats and mean squared error per value, at the posterior centres of kept rows."""
        system, dataset = self.system(), self.dataset()
        rows = self.code_rows()[:most]
        nats, squares = 0.0, 0.0
        with torch.no_grad():
            for start in range(0, len(rows), ENCODING_BATCH):
                x = torch.from_numpy(dataset.observations(rows[start : start + ENCODING_BATCH])).to(system.device)
                q = system.posterior(Batch.of(x), centred=True)
                site = system.joint(q.as_given(x=x), Batch(rows=len(x))).site("x")
                nats -= float(site.log_prob.sum())
                squares += float(((site.distribution.mean - x) ** 2).flatten(1).mean(1).sum())
        return {"nats": nats / len(rows), "mse": squares / len(rows), "rows": len(rows)}

    def evaluate(
        self, scores: Sequence[str] | None = None, progress: bool = False, split: str | None = None
    ) -> Evaluation:
        """Score the kept codes and write scores.json and scores.csv; named scores are added to those there are.

        split: of which rows: test, all, train, validation or held_out, up to 10,000 of them; those of the kept codes
               when not given, which are test rows unless others were encoded
        """
        label = self._code_label()
        if split is not None and (label is None or label[1] != split):
            self.encode_split(split)
        codes, rows = self._read_codes()
        step, split = self._code_label() or (self.steps, "all")
        asked, kept = score_rows(self, codes, rows, split, scores, progress)
        record: dict[str, Any] = {"evaluation": kept.to_dict(), "rows": len(rows), "step": step, "split": split}
        if {Encodes, Decodes} <= set(self.system().capabilities()):
            record["reconstruction"] = self.reconstruction()
        write_json(self.path / "scores.json", record)
        write_text(self.path / "scores.csv", kept.to_csv())
        return asked

    def recognition(self, factor: str | None = None) -> Score:
        """Share of reconstructions in which a classifier of originals still sees the original's class.

        factor: whose values are the classes, such as "shape"; the first with named values when not given
        """
        return recognise(self, factor)

    def scores(self) -> Evaluation | None:
        """The scores of these weights, None when there are none yet."""
        from unweave.metrics import Evaluation

        record = self._score_record()
        return None if record is None else Evaluation.from_dict(record["evaluation"])

    def _score_record(self) -> dict[str, Any] | None:
        """What scores.json holds, None when it is of other weights or of other rows than the kept codes."""
        path = self.path / "scores.json"
        if not path.exists():
            return None
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            found = (record["step"], record["split"])
            same = found[0] == self.steps and (self._code_label() or found) == found
            if same and (self.path / "codes.npz").exists():  # fewer or more rows of the same split are others, too
                same = len(self._load_codes("rows")["rows"]) == record["rows"]
            return record if same and isinstance(record["evaluation"]["scores"], dict) else None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged ({error}): remove it and run `unweave evaluate {self.path}`") from None

    def operate(self, name: str, rows: Sequence[int] | None = None, **params: Any) -> Shown:
        """Run an operation on rows of the data set (a few test rows when not given)."""
        operation = OPERATIONS[name]
        checked = operation.params(**params)
        return operation(self.system(), self._inputs(operation, rows), checked)

    def _inputs(self, operation: Operation, rows: Sequence[int] | None) -> Inputs:
        """What an operation works on; for a generator without a recognition program its own draws stand for codes."""
        default = operation.default_inputs
        if isinstance(self.system(), Encodes):
            reference, kept = self._read_codes()
            if rows is None and operation.one_group:
                kept = self._one_group(kept, operation.inputs)
            chosen = self._some(kept, default) if rows is None else np.asarray(rows, dtype=np.int64)
            codes = self.encode_rows(chosen) if len(chosen) else reference.take([])
        else:
            reference = self.system().draw(1000, seed=self.manifest.seed)
            chosen = np.arange(default) if rows is None else np.asarray(rows, dtype=np.int64)
            codes = reference.take(np.arange(len(chosen)))
        return Inputs(self.dataset().observations(chosen), codes, reference, chosen, self._groups(chosen))

    def _groups(self, rows: np.ndarray) -> np.ndarray | None:
        """(n,) the group of each row, for systems trained on groups."""
        name, factors = self.system().reads.group, self.dataset().factors
        return None if name is None or factors is None else factors.column(name)[rows]

    def _one_group(self, rows: np.ndarray, least: int) -> np.ndarray:
        """The rows that share the group of one of them, of the largest group when these are under `least`.

        All rows when there are no groups.
        """
        groups = self._groups(rows)
        if groups is None:
            return rows
        mine = rows[groups == groups[rows == self._some(rows, 1)[0]][0]]
        if len(mine) >= least:
            return mine
        names, sizes = np.unique(groups, return_counts=True)
        return rows[groups == names[sizes.argmax()]]

    def _some(self, rows: np.ndarray, count: int) -> np.ndarray:
        """A few of the rows, the same ones each time; neighbours in a rendered data set look alike."""
        chosen = np.random.default_rng(self.manifest.seed).permutation(len(rows))[:count]
        return rows[chosen]

    def report(self) -> Path:
        """Write report.html and return its path."""
        from unweave.report import write_report

        self.dataset()  # which may not be there, or others: then nothing is written
        self.cite()
        return write_report(self)

    def cite(self) -> str:
        """BibTeX of the system, the data and the scores used; kept as citations.bib."""
        from unweave.metrics import METRICS

        cards = [SYSTEMS[self.manifest.system].card]
        if self.manifest.data:
            cards.append(DATA[self.manifest.data].card)
        cards += [METRICS[name].card for name in (self.scores() or {}) if name in METRICS]
        entries = list(dict.fromkeys(card.bibtex.strip() for card in cards if card.bibtex.strip()))
        text = "\n\n".join(entries) + "\n"
        write_text(self.path / "citations.bib", text)
        return text


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)
