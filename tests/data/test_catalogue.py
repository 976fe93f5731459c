"""The catalogue says of each data set what a user must know, in forms that the code can use."""

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import pytest

from autapse.checks import InputError
from autapse.data.catalogue import DATA_SETS, DataSet, UpstreamFile, data_set

FILES = [(name, file) for name, each in DATA_SETS.items() for form in each.forms for file in form]


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_data_set_is_described(name):
    each = data_set(name)
    assert each.name == name
    assert all((each.title, each.licence, each.citation, each.forms))
    assert all(each.forms), "an empty form would always be complete"
    assert urlsplit(each.home).scheme in ("http", "https")
    assert "\n" not in each.citation + each.title + each.licence + each.instructions
    assert each.download or each.instructions, "it can neither be fetched nor is it said how to get it"


@pytest.mark.parametrize(("name", "file"), FILES, ids=lambda v: v.path if isinstance(v, UpstreamFile) else v)
def test_every_file_is_well_formed(name, file):
    path = PurePosixPath(file.path)
    assert not path.is_absolute()
    assert ".." not in path.parts
    assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)
    assert file.size is None or file.size > 0
    for url in file.urls:
        assert urlsplit(url).scheme in ("http", "https")
        assert unquote(urlsplit(url).path).endswith(path.name), "a mirror must have the same file"
        assert " " not in url


def test_no_two_files_share_a_checksum():
    """A copied line would."""
    sums = [file.sha256 for _, file in FILES if file.sha256]
    assert len(sums) == len(set(sums))


def test_the_sizes_of_idx_files_follow_from_the_format():
    sizes = {file.path: file.size for file in DATA_SETS["mnist"].forms[1]}
    assert sizes["train-images-idx3-ubyte"] == 16 + 60000 * 28 * 28
    assert sizes["t10k-labels-idx1-ubyte"] == 8 + 10000


def test_mirrors_name_files_with_blanks():
    assert DATA_SETS["har"].download[0].urls[0].endswith("/00240/UCI%20HAR%20Dataset.zip")


def test_a_data_set_is_here_if_one_form_is_complete(tmp_path):
    archive, one, two = (UpstreamFile(path=path) for path in ("all.zip", "a/one", "a/two"))
    each = DataSet(name="x", title="", home="", licence="", citation="", forms=((archive,), (one, two)))
    assert each.complete(tmp_path) is None
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one").touch()
    assert each.complete(tmp_path) is None
    (tmp_path / "a/two").touch()
    assert each.complete(tmp_path) == (one, two)
    (tmp_path / "all.zip").mkdir()
    assert each.complete(tmp_path) == (one, two), "a folder is no file"


def test_unknown_names_get_a_suggestion():
    with pytest.raises(InputError, match=r"data set must be one of mnist, .*; got 'minst'\. Did you mean 'mnist'\?"):
        data_set("minst")


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_page_on_data_has_every_data_set(name):
    page = (Path(__file__).parents[2] / "docs/data.md").read_text(encoding="utf-8")
    each = DATA_SETS[name]
    (row,) = re.findall(rf"(?m)^\| \[`{re.escape(name)}`\].*$", page)
    assert f"({each.home})" in row
    assert f"| {each.title} |" in row
    assert row.endswith(f"| {each.licence} |")
