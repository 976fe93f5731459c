"""Downloads from a server on this machine that cuts, lies, changes its files and knows Range requests."""

import errno
import hashlib
import http.server
import json
import os
import resource
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from autapse.checks import InputError
from autapse.data import download

CONTENT = bytes(range(256)) * 4000  # 1 MB
SHA = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)
LOCATIONS = {"/elsewhere": "ftp://127.0.0.1/file", "/nowhere": "http://["}


class Server(http.server.ThreadingHTTPServer):
    """Serves one content under any path; how it misbehaves is set by its attributes."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.etag = '"one"'
        self.length = ""  # what it says instead of the right Content-Length
        self.ranges = True  # knows Range requests
        self.if_range = True  # and If-Range
        self.cut_after = []  # bytes to send before the connection is cut, one number a request
        self.requests = []  # (path, Range header)
        self.sent = 0  # bytes of an endless file
        self.silent = threading.Event()  # answered by nothing until it is set

    def url(self, path="/file"):
        return f"http://127.0.0.1:{self.server_port}{path}"

    def handle_error(self, request, client_address):
        pass  # cut connections are wanted here


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.requests.append((self.path, asked))
        if self.path == "/silent":
            self.server.silent.wait(20)
            return
        if self.path in LOCATIONS:
            self.send_response(302)
            self.send_header("Location", LOCATIONS[self.path])
            self.end_headers()
            return
        if self.path == "/endless":
            self.send_response(200)
            if self.server.etag:
                self.send_header("ETag", self.server.etag)
            self.end_headers()
            for _ in range(300):  # far more than any buffer, so that it notices when nobody reads
                self.wfile.write(CONTENT)
                self.server.sent += SIZE
            return
        if self.path.startswith("/status/"):
            self.send_error(int(self.path.rpartition("/")[2]))
            return
        content = b"nonsense" * 10 if self.path == "/wrong" else self.server.content
        start = self.start(asked, len(content))
        if start is None:
            return
        self.end_headers()
        rest = content[start:]
        if self.server.cut_after:
            rest = rest[: self.server.cut_after.pop(0)]
        self.wfile.write(rest)

    def start(self, asked, total):
        """Send the headers; return the first byte to send."""
        fresh = not self.server.if_range or self.headers.get("If-Range") in (None, self.server.etag)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.ranges and fresh else 0
        if start >= total:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{total}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        if self.server.etag:
            self.send_header("ETag", self.server.etag)
        self.send_header("Content-Length", self.server.length or str(total - start))
        return start

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(download, "PAUSE", 0.0)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.silent.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "new" / "file.gz"


def names(target):
    """What lies beside the target, but for the lock that a failed download leaves."""
    return sorted(p.name for p in target.parent.iterdir() if not p.name.endswith(".lock"))


def interrupted(server, target, at=300_000):
    """A download that a Ctrl-C stops after `at` bytes."""

    def stop(done, total):
        if done >= at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download.fetch([server.url()], target, SIZE, SHA, stop)
    assert names(target) == ["file.gz.part", "file.gz.part.json"]
    return (target.parent / "file.gz.part").stat().st_size


def test_a_whole_file(server, target):
    seen = []
    assert download.fetch([server.url()], target, SIZE, SHA, lambda done, total: seen.append((done, total))) == target
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
    assert seen == sorted(seen)
    assert seen[-1] == (SIZE, SIZE)


def test_what_is_there_and_good_is_not_fetched_again(server, target):
    for size, sha in ((SIZE, SHA), (SIZE, None), (None, None)):
        download.fetch([server.url()], target, size, sha)
    assert len(server.requests) == 1


def test_what_is_there_and_bad_is_replaced(server, target):
    target.parent.mkdir()
    target.write_bytes(b"bad")
    download.fetch([server.url()], target, None, SHA)
    assert target.read_bytes() == CONTENT


def test_a_cut_connection_is_resumed(server, target):
    server.cut_after = [100_000] * 7  # more often than ATTEMPTS, but each time there are new bytes
    download.fetch([server.url()], target, SIZE, SHA)
    assert target.read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, *(f"bytes={n}00000-" for n in range(1, 8))]


def test_a_server_that_always_cuts_is_given_up(server, target):
    server.cut_after = [0] * 100
    with pytest.raises(InputError, match=r"cut at byte 0 of 1024000, 4 times in a row"):
        download.fetch([server.url()], target, SIZE, SHA)
    assert len(server.requests) == download.ATTEMPTS


def test_a_stopped_download_goes_on_later(server, target):
    kept = interrupted(server, target)
    assert 300_000 <= kept < SIZE
    download.fetch([server.url()], target, SIZE, SHA)
    assert server.requests[-1] == ("/file", f"bytes={kept}-")
    assert target.read_bytes() == CONTENT
    assert names(target) == ["file.gz"]


def test_a_dead_mirror_does_not_lose_the_part_of_another(server, target):
    kept = interrupted(server, target)
    download.fetch([server.url("/status/404"), server.url()], target, SIZE, SHA)
    assert server.requests[-1] == ("/file", f"bytes={kept}-")


def test_a_server_without_ranges_starts_anew(server, target):
    server.ranges = False
    server.cut_after = [400_000]
    download.fetch([server.url()], target, SIZE, SHA)
    assert [asked for _, asked in server.requests] == [None, "bytes=400000-"]
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("if_range", [True, False])
@pytest.mark.parametrize("etag", ['"two"', 'W/"two"', None])
@pytest.mark.parametrize("content", [CONTENT[::-1], CONTENT[::-1] + b"more", CONTENT[:1000]])
def test_a_file_that_changed_between_attempts_is_fetched_anew(server, target, content, etag, if_range):
    """Without a checksum to tell, the bytes of two versions must still not be joined."""
    interrupted(server, target)
    server.content, server.etag, server.if_range = content, etag, if_range
    download.fetch([server.url()], target)
    assert target.read_bytes() == content


def test_a_part_that_was_whole_already(server, target):
    """As a process leaves it that ends before the last step: the server answers 416."""
    interrupted(server, target)
    (target.parent / "file.gz.part").write_bytes(CONTENT)
    download.fetch([server.url()], target, SIZE, SHA)
    assert target.read_bytes() == CONTENT


def test_a_part_that_is_too_long(server, target):
    interrupted(server, target)
    (target.parent / "file.gz.part").write_bytes(CONTENT + b"more")
    download.fetch([server.url()], target, SIZE, SHA)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("length", [1000, SIZE])
@pytest.mark.parametrize("note", [None, b"{", b"[]", b'{"url": 1}', b'{"url": "a", "total": null, "version": null}'])
def test_a_part_of_which_nothing_is_known_is_not_used(server, target, note, length):
    target.parent.mkdir()
    (target.parent / "file.gz.part").write_bytes(b"x" * length)
    if note is not None:
        (target.parent / "file.gz.part.json").write_bytes(note)
    download.fetch([server.url()], target, SIZE)
    assert target.read_bytes() == CONTENT


def test_a_wrong_checksum_leads_to_the_next_mirror(server, target):
    download.fetch([server.url("/wrong"), server.url()], target, None, SHA)
    assert target.read_bytes() == CONTENT
    assert server.requests == [("/wrong", None), ("/file", None)]


def test_only_wrong_mirrors(server, target):
    found = hashlib.sha256(b"nonsense" * 10).hexdigest()
    with pytest.raises(InputError) as caught:
        download.fetch([server.url("/wrong"), server.url("/wrong")], target, None, SHA)
    said = str(caught.value)
    assert said.startswith("file.gz could not be downloaded")
    assert said.count(f"expected sha256 {SHA}, found {found}") == 2
    assert "\n" not in said
    assert names(target) == []


def test_a_wrong_size_is_seen_before_the_download(server, target):
    with pytest.raises(InputError, match=f"expected {SIZE} bytes, the server offers 80"):
        download.fetch([server.url("/wrong")], target, SIZE, SHA)
    assert names(target) == []


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (403, 1), (503, download.ATTEMPTS)])
def test_refusals(server, target, status, requests):
    """What may pass is asked for again, what will not is not."""
    with pytest.raises(InputError, match=f"the server answers {status} "):
        download.fetch([server.url(f"/status/{status}")], target, SIZE, SHA)
    assert len(server.requests) == requests
    assert names(target) == []


def test_nobody_answers(target, server):
    url = server.url()
    server.shutdown()
    server.server_close()
    with pytest.raises(InputError, match=r"no connection \(Connection refused\), 4 times in a row"):
        download.fetch([url], target, SIZE, SHA)


def test_a_silent_server_is_left(server, target, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    with pytest.raises(InputError, match="timed out"):
        download.fetch([server.url("/silent")], target, SIZE, SHA, timeout=0.1)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/file", "/etc/passwd", "data:,x"])
def test_only_the_web(target, url):
    with pytest.raises(InputError, match="url must begin with http:// or https://"):
        download.fetch([url], target)
    assert not target.parent.exists()


def test_redirections_stay_in_the_web(server, target):
    with pytest.raises(InputError, match=r"it redirects to ftp://127\.0\.0\.1/file, which is not a web address"):
        download.fetch([server.url("/elsewhere")], target)


def test_no_mirrors(target):
    with pytest.raises(InputError, match="it has no download address"):
        download.fetch([], target)


def test_a_full_disk_keeps_the_part(server, target, monkeypatch):
    write = download._write

    def full(file, chunk):
        if file.tell() >= 500_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, chunk)

    with monkeypatch.context() as patch:
        patch.setattr(download, "_write", full)
        with pytest.raises(
            InputError,
            match=r"There is no space left for .*file\.gz\.part .* it continues from the bytes that were saved",
        ):
            download.fetch([server.url()], target, SIZE, SHA)
    assert names(target) == ["file.gz.part", "file.gz.part.json"]
    kept = (target.parent / "file.gz.part").stat().st_size
    assert kept >= 500_000
    download.fetch([server.url()], target, SIZE, SHA)
    assert server.requests[-1] == ("/file", f"bytes={kept}-")
    assert target.read_bytes() == CONTENT


def test_a_disk_that_is_really_full(server, target):
    """Files of a child process may grow to 200 kB; what it kept is used when there is space again."""
    code = (
        "import sys, pathlib\nfrom autapse.data.download import fetch\n"
        "try:\n    fetch([sys.argv[1]], pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])\n"
        "except ValueError as error:\n    print(error)"
    )
    words = [sys.executable, "-c", code, server.url(), str(target), str(SIZE), SHA]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=limit, timeout=60, check=True)
    assert done.stdout.startswith("There is no space left"), done.stderr
    assert names(target) == ["file.gz.part", "file.gz.part.json"]
    assert (target.parent / "file.gz.part").stat().st_size == 200_000
    download.fetch([server.url()], target, SIZE, SHA)
    assert server.requests[-1] == ("/file", "bytes=200000-")
    assert target.read_bytes() == CONTENT


def test_two_at_once_fetch_once(server, target):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: download.fetch([server.url()], target, SIZE, SHA), range(4)))
    assert target.read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_the_note_says_what_the_part_is_of(server, target):
    interrupted(server, target)
    note = json.loads((target.parent / "file.gz.part.json").read_text())
    assert note == {"url": server.url(), "total": SIZE, "version": '"one"'}


@pytest.mark.parametrize("size", [1000, SIZE, 3 * SIZE + 17])
def test_no_more_is_written_than_the_file_may_have(server, target, size):
    """The server states no length and sends without end."""
    largest = 0

    def watch(done, total):
        nonlocal largest
        largest = max(largest, (target.parent / "file.gz.part").stat().st_size)

    with pytest.raises(InputError, match=f"the server sends more than {size} bytes, the limit for this file"):
        download.fetch([server.url("/endless")], target, size, SHA, watch)
    assert largest <= size
    assert names(target) == []
    assert server.sent < 300 * SIZE


def test_an_endless_file_of_unknown_size(server, target, monkeypatch):
    monkeypatch.setattr(download, "MOST", 5 * SIZE)
    with pytest.raises(InputError, match=f"more than {5 * SIZE} bytes"):
        download.fetch([server.url("/endless")], target)
    assert names(target) == []


def test_an_endless_mirror_leads_to_the_next(server, target):
    download.fetch([server.url("/endless"), server.url()], target, SIZE, SHA)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("length", ["9" * 5000, "-5", "many"])
def test_a_length_that_is_none(server, target, length):
    """It is as good as not stated."""
    server.length = length
    server.cut_after = []
    download.fetch([server.url()], target, SIZE, SHA)
    assert target.read_bytes() == CONTENT


def test_redirections_to_no_address(server, target):
    with pytest.raises(InputError, match="it redirects to an invalid address"):
        download.fetch([server.url("/nowhere")], target)


def test_links_beside_the_target_are_not_followed(server, target, tmp_path):
    """A data folder may be shared: what somebody put there must not lead to a file of ours."""
    precious = tmp_path / "precious"
    precious.write_text("keep")
    target.parent.mkdir()
    (target.parent / "file.gz.part").symlink_to(precious)
    download.fetch([server.url()], target, SIZE, SHA)
    assert target.read_bytes() == CONTENT
    assert not target.is_symlink()
    target.unlink()
    (target.parent / ".file.gz.lock").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"):
        download.fetch([server.url()], target, SIZE, SHA)
    assert precious.read_text() == "keep"
