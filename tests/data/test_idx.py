import gzip
import lzma

import numpy as np
import pytest

from autapse.data.formats.idx import read_idx
from damage import message
from upstream import idx_bytes, mnist_arrays, real, write_mnist


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "f4", "f8"])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4, 5)])
def test_every_type_and_shape_comes_back_native(tmp_path, kind, shape):
    array = (np.random.default_rng(0).standard_normal(shape) * 100).astype(np.int8).astype(kind)
    (tmp_path / "array").write_bytes(idx_bytes(array))
    found = read_idx(tmp_path / "array")
    assert found.dtype == np.dtype(kind)
    assert found.dtype.isnative
    assert found.flags.writeable
    np.testing.assert_array_equal(found, array)


def test_the_layout_is_the_one_mnist_documents(tmp_path):
    # The label file of the MNIST page: 0x00000801, the number of items, one byte each.
    (tmp_path / "labels").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 255]))
    assert read_idx(tmp_path / "labels").tolist() == [7, 0, 255]


@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_or_not(tmp_path, suffix, compress):
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    path = tmp_path / f"array-idx2-short{suffix}"
    path.write_bytes(compress(idx_bytes(array)))
    np.testing.assert_array_equal(read_idx(path), array)


def test_mnist_in_upstream_s_layout(tmp_path):
    folder = write_mnist(tmp_path, n=20)
    for part in ("train", "t10k"):
        images, labels = mnist_arrays(part, 20)
        np.testing.assert_array_equal(read_idx(folder / f"{part}-images-idx3-ubyte.gz"), images)
        np.testing.assert_array_equal(read_idx(folder / f"{part}-labels-idx1-ubyte.gz"), labels)


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        (b"\0\0\x08", "byte 3", "ends inside its magic number"),
        (b"\x89PNG....", "byte 0", "starts with two zero bytes, but this one with 89 50"),
        (b"\0\0\x07\x01\0\0\0\0", "byte 2", "no value type 0x07"),
        (b"\0\0\x08\0", "byte 3", "its array has 0 dimensions"),
        (b"\0\0\x08\x02\0\0\0\1\0", "byte 9", "ends inside its 2 sizes"),
        (b"\0\0\x0b\x01\0\0\0\2\0\1\0", "byte 11", "an array of shape (2,) needs 12 bytes"),
        (b"\0\0\x08\x01\0\0\0\1\5\6\7", "byte 9", "2 bytes follow its array of shape (1,)"),
    ],
)
def test_damage_is_named_with_its_position(tmp_path, content, place, reason):
    path = tmp_path / "broken"
    path.write_bytes(content)
    assert message(read_idx, path).startswith(f"{path} is damaged at {place}: ")
    assert reason in message(read_idx, path)


def test_truncated_compression_and_missing_file(tmp_path):
    path = write_mnist(tmp_path) / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:1000])
    assert message(read_idx, path).startswith(f"{path} is damaged at byte 1000: ")
    assert message(read_idx, tmp_path / "nothing") == f"{tmp_path / 'nothing'} is missing."


def test_real_mnist():
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        assert read_idx(real("mnist", f"{part}-images-idx3-ubyte.gz")).shape == (count, 28, 28)
        labels = read_idx(real("mnist", f"{part}-labels-idx1-ubyte.gz"))
        assert np.bincount(labels).sum() == count
        assert set(labels) == set(range(10))
