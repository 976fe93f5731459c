"""`autapse predict RUN FILE`: a trained network on sequences in a file."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from autapse import checks, files
from autapse.cli.parse import parse

if TYPE_CHECKING:
    import numpy as np


@dataclass
class Predict:
    """Apply the best weights of a run to sequences: .npy [B, T, D] or [T, D]; .npz with `inputs` and, if the sequences
    differ in length, `lengths`; .csv with one step per line, one channel per column.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run, or a checkpoint file."""
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Sequences: .npy, .npz or .csv."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the predictions here (.npy, .csv or .json; must not exist) instead of printing one line per sequence."""


def main(words: list[str]) -> None:
    args = parse(Predict, "predict", words)
    if args.file.suffix not in READERS:
        checks.fail("file", f"end in one of {', '.join(READERS)}", str(args.file))
    if args.out is not None:
        if args.out.suffix not in WRITERS:
            checks.fail("out", f"end in one of {', '.join(WRITERS)}", str(args.out))
        if args.out.exists():
            raise checks.InputError(f"{args.out} exists already and is not overwritten. Choose another name.")
        if not args.out.parent.is_dir():
            raise checks.InputError(f"There is no folder {args.out.parent} for {args.out.name}. Make it first.")
    inputs, lengths = read_sequences(args.file)
    import torch

    from autapse.models import Tagger
    from autapse.training import load

    model = load(args.run)
    if inputs.shape[2] != model.layer.input_size:
        rule = f"have {model.layer.input_size} channels per step, as the run's task has"
        checks.fail(str(args.file), rule, inputs.shape[2], kind=checks.ShapeError)
    ends = None if lengths is None else torch.from_numpy(lengths)
    predictions = model.predict(torch.from_numpy(inputs), ends).numpy()
    if args.out is None:
        tags = lengths is not None and isinstance(model, Tagger)
        for n, row in enumerate(predictions.tolist()):
            print(row[: lengths[n]] if tags and lengths is not None else row)
    else:
        files.write_bytes(args.out, WRITERS[args.out.suffix](predictions))
        print(f"{len(predictions)} predictions: {args.out}")


def read_sequences(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Inputs [B, T, D] float32 and lengths [B] or None, from a file."""
    import numpy as np

    try:
        inputs, lengths = READERS[path.suffix](path)
    except FileNotFoundError:
        raise checks.InputError(f"{path} is missing.") from None
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise checks.InputError(f"{path} cannot be read: {error}.") from None
    if not isinstance(inputs, np.ndarray) or not np.issubdtype(inputs.dtype, np.number) or np.iscomplexobj(inputs):
        checks.fail(str(path), "hold an array of real numbers", str(getattr(inputs, "dtype", type(inputs).__name__)))
    if inputs.ndim not in (2, 3) or 0 in inputs.shape:
        rule = "hold at least one sequence, of shape (B, T, D) or (T, D)"
        checks.fail(str(path), rule, inputs.shape, kind=checks.ShapeError)
    if not np.isfinite(inputs).all():
        checks.fail(str(path), "hold finite numbers", "NaN or infinity")
    if lengths is not None and not np.issubdtype(lengths.dtype, np.integer):
        checks.fail(f"lengths in {path}", "be integers", str(lengths.dtype))
    batch = np.ascontiguousarray(inputs if inputs.ndim == 3 else inputs[None], dtype=np.float32)
    return batch, None if lengths is None else lengths.astype(np.int64)


def _read_npy(path: Path) -> tuple[Any, Any]:
    import numpy as np

    return np.load(path, allow_pickle=False), None


def _read_npz(path: Path) -> tuple[Any, Any]:
    import numpy as np

    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return archive["inputs"], archive.get("lengths")


def _read_csv(path: Path) -> tuple[Any, Any]:
    import numpy as np

    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines:
        raise ValueError("it is empty")
    return np.loadtxt(lines, delimiter=",", ndmin=2), None


def _npy(predictions: Any) -> bytes:
    import io

    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, predictions, allow_pickle=False)
    return buffer.getvalue()


def _csv(predictions: Any) -> bytes:
    rows = predictions.reshape(len(predictions), -1).tolist()
    return "".join(",".join(map(repr, row)) + "\n" for row in rows).encode()


def _json(predictions: Any) -> bytes:
    import json

    return (json.dumps(predictions.tolist()) + "\n").encode()


READERS = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv}
WRITERS = {".npy": _npy, ".csv": _csv, ".json": _json}
