import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data.formats.cifar import read_cifar10
from upstream import cifar_arrays, cifar_files, real, write_cifar, write_files, write_tar

RECORD = 3073
SECOND = "cifar-10-batches-bin/data_batch_2.bin"


def check(path) -> None:
    train_images, train_labels, test_images, test_labels = read_cifar10(path)
    batches = [cifar_arrays(batch) for batch in range(6)]
    np.testing.assert_array_equal(train_images, np.concatenate([images for images, _ in batches[:5]]))
    np.testing.assert_array_equal(train_labels, np.concatenate([labels for _, labels in batches[:5]]))
    np.testing.assert_array_equal(test_images, batches[5][0])
    np.testing.assert_array_equal(test_labels, batches[5][1])
    assert (train_images.dtype, train_labels.dtype) == (np.uint8, np.int64)


def test_archive(tmp_path):
    check(write_cifar(tmp_path))


def test_folder_and_the_folder_above_it(tmp_path):
    write_files(tmp_path, cifar_files())
    check(tmp_path)
    check(tmp_path / "cifar-10-batches-bin")


def test_planes_are_red_green_blue_row_by_row(tmp_path):
    record = np.zeros(RECORD, np.uint8)
    record[0] = 3
    record[1 + 1024 + 32 * 2 + 5] = 77  # second plane, third row, sixth column
    write_files(tmp_path, {name: record.tobytes() for name in cifar_files()})
    images, labels, _, _ = read_cifar10(tmp_path)
    assert labels.tolist() == [3] * 5
    assert np.argwhere(images[0]).tolist() == [[2, 5, 1]]
    assert images[0, 2, 5, 1] == 77


def broken(tmp_path, change) -> str:
    files = cifar_files()
    files[SECOND] = change(files[SECOND])
    with pytest.raises(InputError) as error:
        read_cifar10(write_tar(tmp_path / "cifar-10-binary.tar.gz", files, "w:gz"))
    return str(error.value).removeprefix(f"{tmp_path}/cifar-10-binary.tar.gz/")


@pytest.mark.parametrize("size", [0, 100, 4 * RECORD + 1])
def test_a_batch_that_ends_inside_a_record(tmp_path, size):
    place = f"{SECOND} is damaged at byte {size}: it ends inside a record"
    assert broken(tmp_path, lambda content: content[:size]).startswith(place)


def test_a_label_that_is_no_class(tmp_path):
    found = broken(tmp_path, lambda content: content[: 2 * RECORD] + b"\x0a" + content[2 * RECORD + 1 :])
    assert found.startswith(f"{SECOND} is damaged at byte {2 * RECORD}: label 10 is not one of 0 to 9.")


def test_a_missing_batch_and_a_truncated_archive(tmp_path):
    files = cifar_files()
    del files[SECOND]
    with pytest.raises(InputError, match=r"data_batch_2.bin is missing"):
        read_cifar10(write_files(tmp_path / "folder", files))
    path = write_cifar(tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"cifar-10-binary.tar.gz is damaged at cifar-10-batches-bin/data"):
        read_cifar10(path)


def test_something_else_is_named(tmp_path):
    write_files(tmp_path, {"readme.html": b"CIFAR"})
    with pytest.raises(InputError) as error:
        read_cifar10(tmp_path)
    assert str(error.value) == f"{tmp_path} has no file data_batch_1.bin."


def test_real_cifar():
    train_images, train_labels, test_images, test_labels = read_cifar10(real("cifar-10", "cifar-10-binary.tar.gz"))
    assert train_images.shape == (50_000, 32, 32, 3)
    assert test_images.shape == (10_000, 32, 32, 3)
    assert np.bincount(train_labels).tolist() == [5_000] * 10
    assert np.bincount(test_labels).tolist() == [1_000] * 10
