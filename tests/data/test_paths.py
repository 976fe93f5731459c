"""Where data sets are looked for, and what is said when one is missing."""

import hashlib
from pathlib import Path

import pytest

from autapse.checks import InputError
from autapse.data import catalogue, paths
from autapse.data.catalogue import DataSet, UpstreamFile

BYTES = b"0 1 2\n"


def small(*files, **more):
    return DataSet(
        name="small",
        title="Small",
        home="https://example.org/small",
        licence="none",
        citation="none",
        forms=((UpstreamFile(path="small.zip"),), tuple(files)) if files else ((UpstreamFile(path="small.zip"),),),
        **more,
    )


def file(name):
    return UpstreamFile(
        path=name, size=len(BYTES), sha256=hashlib.sha256(BYTES).hexdigest(), urls=(f"https://example.org/{name}",)
    )


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """An empty data root, and no way to the network."""
    for name in ("AUTAPSE_DATA", "AUTAPSE_CACHE", "AUTAPSE_OFFLINE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("AUTAPSE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(paths, "fetch", lambda *_: pytest.fail("nothing may be downloaded here"))
    return tmp_path / "data"


@pytest.fixture
def know(monkeypatch):
    """Add a data set to the catalogue."""
    return lambda each: monkeypatch.setitem(catalogue.DATA_SETS, each.name, each)


def test_roots(root, tmp_path, monkeypatch):
    assert paths.data_root() == root
    assert paths.parsed_root() == tmp_path / "home/.cache/autapse/parsed"
    monkeypatch.delenv("AUTAPSE_DATA")
    assert paths.data_root() == tmp_path / "home/.cache/autapse/data"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/cache")
    assert paths.data_root() == Path("/var/tmp/cache/autapse/data")
    assert paths.parsed_root() == Path("/var/tmp/cache/autapse/parsed")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert paths.data_root() == tmp_path / "home/.cache/autapse/data"
    monkeypatch.setenv("AUTAPSE_CACHE", "~/parsed")
    monkeypatch.setenv("AUTAPSE_DATA", "~")
    (tmp_path / "home").mkdir()
    assert paths.parsed_root() == tmp_path / "home/parsed"
    assert paths.data_root() == tmp_path / "home"


def test_a_data_root_that_is_not_there(monkeypatch):
    monkeypatch.setenv("AUTAPSE_DATA", "/nowhere/at/all")
    with pytest.raises(InputError, match=r"AUTAPSE_DATA must be a folder that exists; got '/nowhere/at/all'\. Make"):
        paths.find("mnist")


def test_find(root, know):
    know(small(file("a"), file("b")))
    assert paths.find("small") is None
    (root / "small").mkdir()
    (root / "small/a").write_bytes(BYTES)
    assert paths.find("small") is None
    (root / "small/b").write_bytes(BYTES)
    assert paths.find("small") == paths.require("small") == root / "small"


@pytest.mark.parametrize(
    ("name", "path", "given"),
    [
        ("hapt", "HAPT Data Set.zip", "HAPT Data Set.zip"),
        ("hapt", "RawData/labels.txt", ""),
        ("dsa-19", "dsa19-q128.npz.xz", "dsa19-q128.npz.xz"),
        ("uea-ucr/GunPoint", "GunPoint.zip", "GunPoint.zip"),
    ],
)
def test_readers_get_the_archive_or_the_folder(root, name, path, given):
    (root / name / path).parent.mkdir(parents=True)
    (root / name / path).touch()
    assert paths.source(name) == root / name / given


def test_readers_of_several_files_get_the_folder(root, know):
    know(small(file("a"), file("b")))
    (root / "small").mkdir()
    for name in "ab":
        (root / "small" / name).touch()
    assert paths.source("small") == root / "small"


def test_one_set_of_an_archive(root):
    folder = root / "uea-ucr/JapaneseVowels"
    folder.mkdir(parents=True)
    (folder / "JapaneseVowels.zip").touch()
    assert paths.find("uea-ucr/JapaneseVowels") == folder
    assert paths.find("uea-ucr/PenDigits") is None


def test_unknown_names():
    for ask in (paths.find, paths.require, paths.folder_of):
        with pytest.raises(InputError, match=r"Did you mean 'fashion-mnist'\?"):
            ask("fashoin-mnist")


def test_what_may_not_be_downloaded_is_explained(root, know):
    know(small(instructions="Ask its authors."))
    with pytest.raises(InputError) as caught:
        paths.require("small")
    assert str(caught.value) == (
        "The data set small is not here. Its page is https://example.org/small . Ask its authors. "
        f"Put small.zip into {root}/small, or set AUTAPSE_DATA to the folder that has small/."
    )


@pytest.mark.parametrize(("value", "forbids"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_offline(know, monkeypatch, value, forbids):
    know(small(file("a")))
    asked = []
    monkeypatch.setattr(paths, "fetch", lambda *words: asked.append(words))
    monkeypatch.setenv("AUTAPSE_OFFLINE", value)
    if forbids:
        with pytest.raises(InputError, match=r"Put a into .*AUTAPSE_OFFLINE is set, so nothing is downloaded\."):
            paths.require("small")
    else:
        paths.require("small")
    assert bool(asked) is not forbids


def test_require_downloads_every_file(root, know, monkeypatch):
    know(small(file("a"), file("b")))

    def fetch(urls, target, size, sha256, progress):
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(BYTES)
        progress(3, None)
        assert urls == (f"https://example.org/{target.name}",)
        assert (size, sha256) == (len(BYTES), hashlib.sha256(BYTES).hexdigest())

    monkeypatch.setattr(paths, "fetch", fetch)
    assert paths.require("small") == paths.find("small") == root / "small"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InputError("a could not be downloaded (reason)."), r"a could not be downloaded \(reason\)\. Its page is"),
        (
            PermissionError(13, "Permission denied"),
            r"small cannot be written \(Permission denied\)\. The data set small",
        ),
    ],
)
def test_a_failed_download_says_how_to_get_it_by_hand(know, monkeypatch, error, said):
    know(small(file("a")))

    def fetch(*_):
        raise error

    monkeypatch.setattr(paths, "fetch", fetch)
    with pytest.raises(InputError, match=said):
        paths.require("small")
