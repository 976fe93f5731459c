"""Fuzz run folders: damage, links, odd settings, and kills at every file operation.

    python tests/fuzz/run_folders.py --cases 5000 --kills 500 --seed 1

A damaged folder must give one clear line, or the result of the undamaged one. A run that was killed, however often,
must end with the bits of a run that never stopped. Nothing outside the folder may change.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from autapse import checks
from autapse.cli.main import main as command
from autapse.tasks import Adding
from autapse.training import ModelConfig, RunConfig, Trainer, TrainingConfig
from small import final_tensors, rewrite, step_of, stopped_at

MEMORY = 6 << 30  # bytes of address space: a file must not be able to take more
SECONDS = 120  # for one case, before it counts as hanging
STEPS = 12
CONFIG = RunConfig(
    task=Adding(length=6, train_size=40, validation_size=8, test_size=8),
    model=ModelConfig(cell="gru", hidden_size=(3, 2), dropout=0.2),
    training=TrainingConfig(steps=STEPS, batch_size=8, eval_every=4, checkpoint_seconds=0.0),
)
ODD: list[Any] = [
    *(None, True, False, -1, 0, 1, 3, 2.5, -0.5, 1e308, float("nan"), float("inf"), 2**31, 2**63, 10**30, 10**400),
    *("", "x", "gru", "\x1b[31mred", "a" * 10_000, "../..", "/dev/zero", [], [None], [1, 2], [10**9], {}, {"a": 1}),
]


class Broken(Exception):  # noqa: N818
    """What the fuzzer looks for."""


# Damage ----------------------------------------------------------------------------------------------------------


def flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 3, 30])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(content))


def cut(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def extend(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.choice([1, 100, 5000])))


def scramble(path: Path, rng: random.Random) -> None:
    """Digits become other digits, so that text stays text and a number stays a number."""
    content = bytearray(path.read_bytes())
    digits = [place for place, byte in enumerate(content) if chr(byte).isdigit()]
    for place in rng.sample(digits, min(len(digits), rng.choice([1, 2, 5]))):
        content[place] = ord(str(rng.randrange(10)))
    path.write_bytes(bytes(content))


def remove(path: Path, rng: random.Random) -> None:
    path.unlink()


def become_folder(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def become_pipe(path: Path, rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def become_link(path: Path, rng: random.Random) -> None:
    outside = path.parent.parent / "outside" / path.name
    path.unlink()
    path.symlink_to(rng.choice([outside, Path("/dev/zero"), path, Path("nowhere")]))


def odd_json(path: Path, rng: random.Random) -> None:
    """A JSON file with one value that is odd, missing or too many."""
    if path.suffix != ".json":
        return scramble(path, rng)
    content = json.loads(path.read_text())
    make_odd(content, rng)
    path.write_text(json.dumps(content))
    return None


DAMAGE: list[Callable[[Path, random.Random], None]] = [
    *(
        flip,
        flip,
        cut,
        extend,
        scramble,
        scramble,
        remove,
        become_folder,
        become_pipe,
        become_link,
        become_link,
        odd_json,
    ),
]


def make_odd(content: dict[str, Any], rng: random.Random) -> None:
    """Change, remove or add one value somewhere in nested objects."""
    key = rng.choice(list(content))
    if isinstance(content[key], dict) and content[key] and rng.random() < 0.9:
        make_odd(content[key], rng)
    elif rng.random() < 0.8:
        content[key] = rng.choice(ODD)
    elif rng.random() < 0.5:
        del content[key]
    else:
        content[rng.choice(["more", "step", "checkpoint", ""])] = rng.choice(ODD)


def odd_checkpoint(run: Path, rng: random.Random) -> None:
    """A checkpoint by somebody who knows the format: the checksum fits, config.json agrees."""

    def change(about: dict[str, Any], tensors: dict[str, Any]) -> None:
        if rng.random() < 0.8:
            make_odd(about, rng)
        else:
            name = rng.choice(list(tensors))
            tensor = tensors.pop(name)
            flat = tensor.flatten()
            others = [flat[:0], tensor.half(), flat, torch.cat([flat, torch.zeros(5)])]
            tensors[rng.choice([name, name, "carried.0.x", "solutions.1", f"{name}.more"])] = rng.choice(others)
        if isinstance(about.get("config"), dict):
            (run / "config.json").write_text(json.dumps(about["config"]))

    rewrite(run, change)


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Neither more time nor more steps than a case should need."""

    def late(*_: object) -> None:
        raise Broken(f"no end after {SECONDS} seconds")

    train = Trainer.train

    def shortened(trainer: Trainer) -> dict[str, Any]:
        trainer.progress.prolonged_to = min(trainer.steps, trainer.progress.step + 2)
        return train(trainer)

    Trainer.train = shortened  # type: ignore[method-assign]
    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        Trainer.train = train  # type: ignore[method-assign]


def answer(verb: str, run: Path) -> str:
    """What a verb says; a refusal must be one line, and the same verb must not raise."""
    out, err = io.StringIO(), io.StringIO()
    with watched(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command([verb, str(run)])
    if code == 2:
        said = err.getvalue()
        if said.count("\n") != 1 or not said.startswith("autapse: ") or "\x1b" in said:
            raise Broken(f"not one clear line: {said!r}")
        return "refused"
    if code not in (0, 1):
        raise Broken(f"exit code {code}")
    return out.getvalue()


def digest(folder: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()


def same_tensors(one: Path, other: Path) -> bool:
    a, b = final_tensors(one), final_tensors(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def damage(cases: int, seed: int) -> dict[str, int]:
    """Damage copies of a stopped run; counts what came of it."""
    counts = {"refused": 0, "harmless": 0}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        stopped_at(6, root / "stopped", CONFIG)
        shutil.copytree(root / "stopped", root / "outside")
        shutil.copytree(root / "stopped", root / "good")
        score = answer("eval", root / "good")
        answer("resume", root / "good")
        precious = digest(root / "outside")
        for case in range(cases):
            rng = random.Random(f"{seed} {case}")
            run = Path(shutil.copytree(root / "stopped", root / "run"))
            hostile = rng.random() < 0.4
            try:
                if hostile:
                    odd_checkpoint(run, rng)
                else:
                    rng.choice(DAMAGE)(rng.choice(sorted(run.iterdir())), rng)
                verb = rng.choice(["resume", "resume", "eval"])
                said = answer(verb, run)
                if said != "refused" and not hostile:
                    if verb == "eval" and said != score:
                        raise Broken("eval gives another score")
                    if verb == "resume" and not same_tensors(run, root / "good"):
                        raise Broken("resume gives other weights")
                if digest(root / "outside") != precious:
                    raise Broken("a file outside the run was changed")
            except Exception as error:
                raise Broken(f"damage, seed {seed}, case {case}: {error!r}\n{traceback.format_exc()}") from None
            counts["refused" if said == "refused" else "harmless"] += 1
            shutil.rmtree(run)
    return counts


# Kills -----------------------------------------------------------------------------------------------------------


def die_at(operation: int) -> None:
    """End this process, as by a power loss, before its n-th operation on a file; then nothing can be flushed."""
    left = operation

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **keywords)

        return call

    for name in ("open", "fsync", "replace", "unlink"):
        setattr(os, name, counted(getattr(os, name)))


def child(folder: Path, operation: int) -> int:
    """Train in a process of its own that dies at an operation; the process's number."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        fresh = not (folder / "state.json").exists()
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        die_at(operation)
        trainer = Trainer(CONFIG).start(folder) if fresh else Trainer.resume(folder)
        trainer.train()
        code = 0
    except checks.InputError as error:
        code = 2 if "is in use by another process" in str(error) else 1
    finally:
        if code == 1:
            traceback.print_exc()
        os._exit(code)


def ended(number: int) -> int:
    _, status = os.waitpid(number, 0)
    return os.waitstatus_to_exitcode(status)


def kills(cases: int, seed: int) -> dict[str, int]:
    """Kill runs at random operations, resume them, sometimes twice at the same time, and compare the end."""
    counts = {"runs": 0, "killed": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        if ended(child(root / "whole", 0)):
            raise Broken("the run that is not killed failed")
        rng = random.Random(f"{seed} kills")
        while counts["killed"] < cases:
            counts["runs"] += 1
            run = root / f"run-{counts['runs']}"
            codes = [-signal.SIGKILL]
            while 0 not in codes:
                started = (run / "state.json").exists()
                together = 2 if started and rng.random() < 0.3 else 1
                codes = [ended(number) for number in [child(run, rng.randrange(1, 250)) for _ in range(together)]]
                counts["killed"] += codes.count(-signal.SIGKILL)
                counts["refused"] += codes.count(2)
                if set(codes) - {0, 2, -signal.SIGKILL}:
                    raise Broken(f"kills, seed {seed}, run {counts['runs']}: exit codes {codes}")
            if not same_tensors(run, root / "whole") or step_of(run) != STEPS:
                raise Broken(f"kills, seed {seed}, run {counts['runs']}: other weights")
            if records(run) != records(root / "whole"):
                raise Broken(f"kills, seed {seed}, run {counts['runs']}: other records")
            names = sorted(path.name for path in run.iterdir())
            if names != sorted(path.name for path in (root / "whole").iterdir()):
                raise Broken(f"kills, seed {seed}, run {counts['runs']}: left {names}")
            shutil.rmtree(run)
    return counts


def records(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200, help="damaged folders")
    parser.add_argument("--kills", type=int, default=30, help="kills at random file operations")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)  # so that forked processes can compute
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    begun = time.perf_counter()
    print("damage:", damage(options.cases, options.seed))
    print("kills:", kills(options.kills, options.seed))
    print(f"no fault found, {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
