"""What fuzzers share: numbered cases, each of which is made from its number alone, in limited memory."""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

SECONDS = 120  # what is still at work then hangs


def options(about: str, cases: int) -> argparse.ArgumentParser:
    """How many cases to run, and which: a case that failed is run again with its number and --cases 1."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    return parser


def limit_memory(more: int) -> None:
    """Allow `more` bytes beyond what is taken, so that who trusts a huge size fails instead of filling the machine."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + more, taken + more))


def guarded(work: Callable[[], str]) -> str:
    """What `work` finds wrong; an exception is wrong too."""
    signal.alarm(SECONDS)
    try:
        return work()
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.alarm(0)


def run(args: argparse.Namespace, fault: Callable[[int], str]) -> int:
    """Run the cases and print what fails; return an exit code."""
    failed = 0
    for case in range(args.first, args.first + args.cases):
        if wrong := fault(case):
            failed += 1
            sys.stdout.write(f"case {case}, {wrong}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{args.cases} cases, {failed} failed\n")
    return min(failed, 1)
