"""`autapse predict` for a run on images: the class of each image, or of each of its pixels."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autapse import checks, files, terminal
from autapse.cli.predictions import PIPE
from autapse.data.formats.npy import read_npy
from autapse.data.reading import read_bytes

if TYPE_CHECKING:
    from autapse.models.images import ImageModel


def give_images(path: Path, model: ImageModel, out: Path | None, probabilities: bool) -> None:
    """Classify the images of a file, and print or write the classes.

    Args:
        path: a .npy file with images, [N, H, W] or [N, H, W, channels].
        model: the model of the run.
        out: a new .npy file with numbers of classes, or with probabilities; None to print.
        probabilities: give the probabilities of all classes.
    """
    if out is not None and out != PIPE:
        checks.one_of("out's ending", out.suffix, (".npy",))
    checks.one_of(f"The ending of {path.name}", path.suffix, (".npy",))
    images = read_npy(read_bytes(path), path)
    if images.ndim not in (3, 4):
        checks.fail(str(path), "have shape (N, H, W) or (N, H, W, channels)", images.shape, kind=checks.ShapeError)
    chances: np.ndarray = np.asarray(model.predict_proba(images))
    if out is not None and out != PIPE:
        values = chances.astype(np.float32) if probabilities else chances.argmax(-1)
        buffer = io.BytesIO()
        np.save(buffer, values, allow_pickle=False)
        files.write_bytes(out, buffer.getvalue())
        terminal.write(f"{len(images)} images: {out}")
        return
    if model.every_pixel:
        raise checks.InputError("A class for each pixel is written to a file. Add --out classes.npy.")
    names = model.classes or tuple(map(str, range(chances.shape[-1])))
    for row in chances:
        terminal.write(_shown(row, names) if probabilities else names[int(row.argmax())])


def _shown(row: np.ndarray, names: tuple[str, ...]) -> str:
    return " ".join(f"{name}={chance:.4f}" for name, chance in zip(names, row, strict=True))
