"""A real browser in a test: Chromium without a screen opens a file, runs a script in it, and says what happened."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Without these, Chromium asks its maker for updates and the like.
QUIET = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync".split()
QUIET += ["--disable-component-update"]
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium, or CI's .ci/run as root"
)


@dataclass(frozen=True)
class Visit:
    """What happened when a page was opened."""

    answer: Any  # what the script returned
    fetched: list[str]  # addresses that the page asked for
    console: list[str]  # warnings and errors


def visit(page: Path, script: str, *, width: int = 1280, dark: bool = False) -> Visit:
    """Open a copy of a page, run a script in it, and return what it returns.

    Args:
        page: an HTML file.
        script: the body of a JavaScript function. What it returns must fit into JSON.
        width: of the window, in pixels.
        dark: whether the browser prefers dark pages.
    """
    listen = "const heard = []; addEventListener('error', e => heard.push(String(e.message || e.target.src)), true);"
    answer = f"""
        const answer = (() => {{ {script} }})();
        const fetched = performance.getEntriesByType("resource").map(entry => entry.name);
        const place = document.createElement("pre");
        place.id = "answer-of-the-test";
        place.textContent = JSON.stringify({{answer, fetched, heard}});
        document.body.append(place);"""
    text = page.read_text(encoding="utf-8").replace("<head>", f"<head><script>{listen}</script>", 1)
    copy = page.with_name(f"visited-{page.name}")
    copy.write_text(f"{text}<script>addEventListener('load', () => {{ {answer} }});</script>", encoding="utf-8")
    done = _chromium(copy, width, dark)
    found = re.search(r'<pre id="answer-of-the-test">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the page did not answer: {done.stderr[-2000:]}"
    said = json.loads(html.unescape(found[1]))
    logged = re.findall(r"CONSOLE[^\]]*\] \"?(.*)", done.stderr)
    return Visit(said["answer"], said["fetched"], [*said["heard"], *logged])


def _chromium(page: Path, width: int, dark: bool) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    words = [CHROMIUM, "--headless", "--no-sandbox", *QUIET, f"--user-data-dir={page.parent / 'chromium'}"]
    words += ["--enable-logging=stderr", f"--window-size={width},900", "--virtual-time-budget=2000"]
    words += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom", page.resolve().as_uri()]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
