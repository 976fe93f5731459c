"""Regular files only, written whole, and flushed with their folder."""

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from autapse import files
from damage import message


def make(path, kind):
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.bind(str(path))
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a folder", "a device"])
@pytest.mark.parametrize("read", [files.open_regular, files.read_bytes, files.read_json])
def test_only_regular_files_are_read(tmp_path, monkeypatch, kind, read):
    monkeypatch.chdir(tmp_path)  # a socket's path may have about 100 characters
    path = make(Path("x"), kind)
    assert message(read, path) == f"x is {kind}, not a regular file."


@pytest.mark.parametrize("mode", ["rb", "r+b", "ab"])
def test_links_are_followed_only_where_asked(tmp_path, mode):
    (tmp_path / "outside").write_text("precious")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "outside")
    with files.open_regular(link, mode):
        pass
    with pytest.raises(ValueError, match="link is a symbolic link, not a regular file"):
        files.open_regular(link, mode, follow=False)
    assert (tmp_path / "outside").read_text() == "precious"


def test_a_file_that_is_replaced_while_it_is_opened_is_checked_again(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_text("x")
    opened = os.open

    def late(name, flags):
        path.unlink()
        os.mkfifo(path)
        return opened(name, flags)

    monkeypatch.setattr(os, "open", late)
    assert message(files.open_regular, path) == f"{path} is a pipe, not a regular file."


def test_a_limit_is_named(tmp_path):
    (tmp_path / "x").write_bytes(b"12345")
    assert files.read_bytes(tmp_path / "x", limit=5) == b"12345"
    with pytest.raises(ValueError, match="has 5 bytes; the limit is 4"):
        files.read_bytes(tmp_path / "x", limit=4)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "9" * 5000, "[" * 100_000, "{", "\xff"])
def test_json_that_is_no_json_gets_one_line(tmp_path, text):
    (tmp_path / "x.json").write_bytes(text.encode("latin-1"))
    assert "x.json is damaged: " in message(files.read_json, tmp_path / "x.json")


def test_a_link_at_the_temporary_name_is_not_followed(tmp_path):
    (tmp_path / "outside").write_text("precious")
    (tmp_path / f".x.{os.getpid()}.part").symlink_to(tmp_path / "outside")
    files.write_bytes(tmp_path / "x", b"new")
    assert (tmp_path / "outside").read_text() == "precious"
    assert not (tmp_path / "x").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "x"]


def test_the_folder_is_flushed_after_the_rename(tmp_path, monkeypatch):
    seen = []
    replace, fsync = os.replace, os.fsync

    def renaming(old, new, **keywords):
        seen.append("rename")
        replace(old, new, **keywords)

    def flushing(descriptor):
        seen.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "replace", renaming)
    monkeypatch.setattr(os, "fsync", flushing)
    files.write_json(tmp_path / "x.json", [1, 2])
    assert seen == ["file", "rename", "folder"]
    assert json.loads((tmp_path / "x.json").read_text()) == [1, 2]


def test_only_temporary_files_of_ours_are_removed(tmp_path):
    kept = ["x.part", ".x.part", ".part", "x.1.part", ".x.1.partly"]
    for name in [*kept, ".x.1.part", ".a.b.json.77.part"]:
        (tmp_path / name).write_text("")
    files.remove_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
