"""The commands from data to codes and back: `unweave encode` and `unweave decode`."""

from __future__ import annotations

from pathlib import Path

import click

from unweave.base.errors import UnweaveError
from unweave.path_option import PATH

_MOST = 10_000


@click.command(short_help="Codes of a run's data, or of new images or arrays.")
@click.argument("run", type=PATH)
@click.option("--data", type=PATH, help="New data: an image, a folder of images, a .npy or .npz file.")
@click.option("--out", type=PATH, help="Where codes of new data go: .npz, .csv or .npy [codes.npz].")
@click.option("--groups", type=PATH, help="CSV or Parquet table with the groups of new data.")
@click.option("--split", help="Which rows of the run's data: train, validation, test, held_out or all [test].")
@click.option("--most", type=click.IntRange(min=1), help=f"At most this many rows of a split [{_MOST}].")
def encode(
    run: Path, data: Path | None, out: Path | None, groups: Path | None, split: str | None, most: int | None
) -> None:
    """Encode new data into a file, or rows of the run's own data into the run (codes.npz), where scores find them.

    Images are made as large, as coloured and in the range of those it was trained on, and what was done is said. The
    codes of files have their names beside them. A .csv can be edited anywhere, and decoded with `unweave decode`.
    """
    from unweave.runs import Run

    handle = Run.open(run)
    if data is None:
        if out is not None or groups is not None:
            raise click.UsageError("--out and --groups go with --data: rows of the run's own data are kept in the run")
        codes = handle.encode_split(split, most or _MOST)
        click.echo(f"{codes!r}: {run / 'codes.npz'}")
        return
    if split is not None or most is not None:
        raise click.UsageError("--split and --most choose rows of the run's own data: leave them out with --data")
    out = out or Path("codes.npz")
    from unweave.base.files import check_place, make_place
    from unweave.runs.codes_file import check_suffix, write_codes

    check_suffix(out)
    check_place(out)  # before the work, and its folder after it
    if out.resolve() == (run / "codes.npz").resolve():
        raise click.UsageError(f"{out} holds the codes of the run's own data, which are scored: choose another --out")
    codes = handle.encode(data, groups=groups, say=_say)
    make_place(out)
    click.echo(f"{codes!r}: {write_codes(out, codes)}")


@click.command(short_help="Pictures (or an array) from codes, edited ones too.")
@click.argument("run", type=PATH)
@click.argument("codes", type=PATH)
@click.option("--out", type=PATH, required=True, help="A folder for pictures, one of each code, or a .npy file.")
def decode(run: Path, codes: Path, out: Path) -> None:
    """Decode CODES (a .npz or .csv of `unweave encode`, changed or not, or a .npy with a row of numbers for each).

    A folder gets a PNG for each code (a GIF of a clip), with the name of the file the code was made of; a .npy file
    gets one array of all, in the range of the data.
    """
    from unweave.runs import Run
    from unweave.runs.codes_file import read_codes

    if out.suffix and out.suffix.lower() != ".npy" and not out.is_dir():
        raise UnweaveError(f"cannot write {out}: name a folder for pictures, or a .npy file")
    handle = Run.open(run)
    found = read_codes(codes, handle.system().blocks)
    decoded = handle.decode(found)
    if out.suffix.lower() == ".npy":
        import numpy as np

        from unweave.base.files import make_place, replacing

        make_place(out)
        with replacing(out) as temporary:
            np.save(temporary, decoded)
        click.echo(f"{' x '.join(map(str, decoded.shape))} values: {out}")
        return
    from unweave.core.dataspec import DataSpec
    from unweave.media import save_each

    written = save_each(decoded, out, DataSpec.from_dict(handle.manifest.data_spec), found.names)
    click.echo(f"{len(written)} pictures: {out}")


def _say(line: str) -> None:
    click.echo(line, err=True)
