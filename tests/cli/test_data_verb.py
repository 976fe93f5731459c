"""`autapse data`: list, fetch, verify, path."""

import hashlib
import os
import re

import pytest

from autapse.cli.main import main
from autapse.data import catalogue, paths
from autapse.data.catalogue import DATA_SETS, DataSet, UpstreamFile

GOOD = b"good bytes"
SHA = hashlib.sha256(GOOD).hexdigest()


def small(**changes):
    facts = {
        "name": "small",
        "title": "A small set",
        "home": "https://example.org/small",
        "licence": "CC0",
        "citation": "Nobody: Nothing, 2000",
        "forms": (
            (
                UpstreamFile(path="a.bin", size=len(GOOD), sha256=SHA, urls=("https://example.org/a.bin",)),
                UpstreamFile(path="b.bin", urls=("https://example.org/b.bin",)),
            ),
        ),
    }
    return DataSet(**(facts | changes))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The data root, with one small set that is not here yet."""
    monkeypatch.setenv("AUTAPSE_DATA", str(tmp_path))
    monkeypatch.delenv("AUTAPSE_OFFLINE", raising=False)
    monkeypatch.setitem(catalogue.DATA_SETS, "small", small())
    monkeypatch.setattr(paths, "fetch", lambda *_: pytest.fail("nothing may be downloaded here"))
    return tmp_path / "small"


def put(folder, a=GOOD, b=b"anything"):
    folder.mkdir()
    (folder / "a.bin").write_bytes(a)
    (folder / "b.bin").write_bytes(b)


def run(capsys, *words):
    code = main(["data", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_list_names_every_set(capsys, folder):
    code, out, err = run(capsys, "list")
    assert (code, err) == (0, "")
    assert all(re.search(rf"^{re.escape(name)} ", out, re.M) for name in DATA_SETS)
    assert out.count("not here") == out.count("licence: ") == len(DATA_SETS)
    assert re.search(r"^yelp .*\n +not here; to be got by hand\n +licence: Yelp's own terms", out, re.M)
    assert re.search(r"^imdb .*\n +not here; download: 84.1 MB\n", out, re.M)


def test_list_says_what_is_here(capsys, folder):
    put(folder)
    _, out, _ = run(capsys, "list", "small")
    assert out.startswith(f"small  A small set\n       here: {folder} (18 bytes)\n       licence: CC0\n")
    assert "example.org" not in out


def test_list_long(capsys, folder):
    _, out, _ = run(capsys, "list", "small", "--long")
    assert "page: https://example.org/small\n" in out
    assert "cite: Nobody: Nothing, 2000\n" in out
    assert f"a.bin: 10 bytes, sha256 {SHA}\n" in out
    assert "b.bin: size not known, sha256 not known\n" in out


def test_fetch(capsys, folder, monkeypatch):
    def fetch(urls, target, size, sha256, progress):
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(GOOD)

    monkeypatch.setattr(paths, "fetch", fetch)
    assert run(capsys, "fetch", "small") == (0, f"small is here now: {folder}\n", "")
    assert run(capsys, "fetch", "small") == (0, f"small is here already: {folder}\n", "")


def test_fetch_by_hand(capsys, folder):
    code, out, err = run(capsys, "fetch", "yelp")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "Accept the terms on its page" in err
    assert f"Put yelp_academic_dataset_review.json into {folder.parent}/yelp" in err
    assert not list(folder.parent.iterdir())


def test_fetch_offline(capsys, folder, monkeypatch):
    monkeypatch.setenv("AUTAPSE_OFFLINE", "1")
    code, _, err = run(capsys, "fetch", "small")
    assert (code, err.count("\n")) == (2, 1)
    assert "AUTAPSE_OFFLINE is set" in err


def test_verify(capsys, folder):
    put(folder)
    code, out, err = run(capsys, "verify", "small")
    assert (code, err) == (0, "")
    assert out == f"{folder}/a.bin: ok\n{folder}/b.bin: no checksum known, size 8 bytes\n"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"evil bytes", f"expected sha256 {SHA}, found {hashlib.sha256(b'evil bytes').hexdigest()}"),
        (b"short", "expected 10 bytes, found 5"),
    ],
)
def test_verify_wrong(capsys, folder, bad, said):
    put(folder, a=bad)
    code, out, _ = run(capsys, "verify", "small")
    assert code == 1
    assert f"{folder}/a.bin: WRONG ({said})\n" in out
    assert "1 of 2 files are wrong. Remove them, then: autapse data fetch small\n" in out


def test_verify_what_is_not_here(capsys, folder):
    code, out, err = run(capsys, "verify", "small")
    assert (code, out) == (2, "")
    assert err == f"autapse: The data set small is not here ({folder}). Get it with: autapse data fetch small\n"
    assert "Put yelp_academic_dataset_review.json into" in run(capsys, "verify", "yelp")[2]


def test_path(capsys, folder):
    assert run(capsys, "path") == (0, f"{folder.parent}\n", "")
    assert run(capsys, "path", "small") == (0, f"{folder}\n", "")
    assert run(capsys, "path", "uea-ucr/GunPoint") == (0, f"{folder.parent}/uea-ucr/GunPoint\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "`autapse data` needs list, fetch, verify or path first, as in: autapse data list"),
        ("fecth mnist", "invalid choice 'fecth'"),
        ("fetch", "`autapse data fetch` needs a data set, as in: autapse data fetch mnist"),
        ("verify", "`autapse data verify` needs a data set"),
        ("fetch minst", "data set must be one of mnist, .*; got 'minst'. Did you mean 'mnist'?"),
        ("path uea-ucr/GunPiont", r"Did you mean 'uea-ucr/GunPoint'\?"),
        ("list nothing", "data set must be one of"),
        ("path --long", "--long must stand with `autapse data list`; got 'path'"),
        ("list --lnog", "--lnog.*Did you mean --long"),
    ],
)
def test_mistakes(capsys, folder, words, said):
    code, out, err = run(capsys, *words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(said, err), err


def test_a_data_root_that_is_not_there(capsys, monkeypatch):
    monkeypatch.setenv("AUTAPSE_DATA", "/nowhere/at/all")
    for words in (["list"], ["path"], ["fetch", "mnist"], ["verify", "mnist"]):
        code, _, err = run(capsys, *words)
        assert (code, err.count("\n")) == (2, 1)
        assert "AUTAPSE_DATA must be a folder that exists" in err


def test_help(capsys):
    assert main(["data", "--help"]) == 0
    assert "AUTAPSE_DATA" in capsys.readouterr().out


def test_real_mnist(capsys):
    if not os.environ.get("AUTAPSE_DATA") or paths.find("mnist") is None:
        pytest.skip("AUTAPSE_DATA names no folder with MNIST")
    code, out, _ = run(capsys, "verify", "mnist")
    assert code == 0
    assert out.count(": ok\n") == 4
