"""Arrays are parsed once; the cache never gives back anything but what was parsed."""

import os

import numpy as np
import pytest

from autapse import files
from autapse.checks import InputError
from autapse.data.cache import cached, pack_strings, unpack_strings


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTAPSE_CACHE", str(tmp_path / "parsed"))
    return tmp_path / "parsed"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("1 2 3")
    return path


class Parser:
    """Reads the numbers of a file and counts how often it was asked."""

    def __init__(self, source):
        self.source, self.calls = source, 0

    def __call__(self):
        self.calls += 1
        return {"numbers": np.array(self.source.read_text().split(), dtype=np.int64)}


def entries(place):
    return sorted(path.relative_to(place).parent.as_posix() for path in place.rglob("*") if path.is_file())


def test_parsed_once(source, place):
    parse = Parser(source)
    for _ in range(3):
        np.testing.assert_array_equal(cached("numbers", 1, [source], parse)["numbers"], [1, 2, 3])
    assert parse.calls == 1
    assert entries(place) == ["numbers"]


def test_a_changed_source_is_parsed_anew_and_the_old_entry_removed(source, place):
    parse = Parser(source)
    cached("numbers", 1, [source], parse)
    source.write_text("4 5 6")
    np.testing.assert_array_equal(cached("numbers", 1, [source], parse)["numbers"], [4, 5, 6])
    assert parse.calls == 2
    assert entries(place) == ["numbers"]


def test_a_new_version_is_parsed_anew(source, place):
    parse = Parser(source)
    cached("numbers", 1, [source], parse)
    cached("numbers", 2, [source], parse)
    assert parse.calls == 2
    assert entries(place) == ["numbers"]


def test_names_do_not_meet(source, place):
    """One may be the beginning of another, and the folder of another."""
    parse = Parser(source)
    for name in ("a", "a-b", "a/b", "a/b", "a-b", "a"):
        cached(name, 1, [source], parse)
    assert parse.calls == 3
    assert entries(place) == ["a", "a-b", "a/b"]


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../b", "a/", "a b", ".a"])
def test_names_stay_in_the_cache(source, name):
    with pytest.raises(InputError, match="name must be words"):
        cached(name, 1, [source], Parser(source))


def test_the_same_bytes_elsewhere_have_the_same_key(source, tmp_path):
    parse = Parser(source)
    cached("numbers", 1, [source], parse)
    copy = tmp_path / "copy.txt"
    copy.write_bytes(source.read_bytes())
    cached("numbers", 1, [copy], parse)
    assert parse.calls == 1


def test_a_folder_is_known_by_names_sizes_and_times(tmp_path, source):
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    one = folder / "deep/one.txt"
    one.write_text("1")
    parse = Parser(source)

    def calls():
        cached("folder", 1, [folder], parse)
        return parse.calls

    assert [calls(), calls()] == [1, 1]
    one.write_text("12")
    assert calls() == 2
    os.utime(one, ns=(0, 12345))
    assert calls() == 3
    one.rename(folder / "deep/two.txt")
    assert calls() == 4
    (folder / "three.txt").touch()
    assert [calls(), calls()] == [5, 5]


def test_a_missing_source(tmp_path):
    with pytest.raises(InputError, match="gone is missing"):
        cached("gone", 1, [tmp_path / "gone"], dict)


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "truncated":
        del content[-5:]
    elif how == "empty":
        content.clear()
    elif how == "nonsense":
        content[:] = b"nonsense" * 9
    else:
        content[-1 if how == "data" else 12] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["truncated", "empty", "nonsense", "data", "header"])
def test_a_damaged_entry_is_parsed_anew_and_rewritten(source, place, how):
    parse = Parser(source)
    cached("numbers", 1, [source], parse)
    (path,) = place.rglob("*.safetensors")
    whole = path.read_bytes()
    damage(path, how)
    np.testing.assert_array_equal(cached("numbers", 1, [source], parse)["numbers"], [1, 2, 3])
    assert parse.calls == 2
    assert path.read_bytes() == whole


ARRAYS = {
    "zero-dimensional": np.array(3.5),
    "empty": np.zeros((0, 3), dtype=np.float32),
    "bool": np.array([True, False]),
    "half": np.arange(4, dtype=np.float16),
    "bytes": np.arange(5, dtype=np.uint8),
    "transposed": np.arange(6).reshape(2, 3).T,
    "strided": np.arange(10)[::3],
    "big-endian": np.arange(3, dtype=">i4"),
}


def test_arrays_come_back_as_they_were(source):
    first = cached("arrays", 1, [source], lambda: ARRAYS)
    second = cached("arrays", 1, [source], lambda: pytest.fail("it is in the cache"))
    assert set(first) == set(second) == set(ARRAYS)
    for key, array in ARRAYS.items():
        for got in (first[key], second[key]):
            assert got.dtype == array.dtype.newbyteorder("=")
            assert got.shape == array.shape
            np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([{}], dtype=object), np.zeros(2, dtype=complex), np.array(["2020"], "M8[Y]")]
)
def test_other_types_are_refused(source, place, array):
    with pytest.raises(InputError, match=r"array 'x' must have one of the types bool, .*Use pack_strings"):
        cached("x", 1, [source], lambda: {"x": array})
    assert not place.exists()


def test_a_cache_that_cannot_be_written_warns_and_goes_on(source, place):
    place.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="parsed arrays of numbers cannot be stored .*AUTAPSE_CACHE") as warned:
        arrays = cached("numbers", 1, [source], Parser(source))
    np.testing.assert_array_equal(arrays["numbers"], [1, 2, 3])
    assert len(warned) == 1


def test_a_full_disk_warns_and_goes_on(source, place, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_bytes", full)
    with pytest.warns(UserWarning, match=r"cannot be stored \(No space left on device"):
        cached("numbers", 1, [source], Parser(source))
    assert entries(place) == []


@pytest.mark.parametrize("strings", [[], [""], ["", ""], ["one"], ["Zürich", "東京", " a\tb\r", "\x85\u2028"]])
def test_strings(strings):
    packed = pack_strings(strings)
    assert packed.dtype == np.uint8
    assert packed.flags.writeable
    assert unpack_strings(packed) == strings


def test_strings_with_line_breaks_are_refused():
    with pytest.raises(InputError, match=r"strings must have no line breaks; got 'a\\nb'"):
        pack_strings(["fine", "a\nb"])
