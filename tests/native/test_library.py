"""The shared library as such: how it is found, chosen and switched off, and what a call leaves behind."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from kernels import Case, as_operands, gradients, make_case, named, needs_kernels, one_per_kernel, same_bits
from torch import Tensor

import autapse
from autapse.forms import UpdateGate
from autapse.native import library, ops
from autapse.native.operands import ACTIVATIONS, KERNELS, MOST_DELAYS
from autapse.unfold import scan_fused, scan_reference
from networks import Network
from tolerance import close

every_kernel = pytest.mark.parametrize("network", one_per_kernel(), ids=str)

# Prints what the library says of itself, every warning that names autapse, what several calls of a layer give, and how
# many threads a large call started.
PROGRAM = """
import json, os, sys, warnings
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as seen:
    import torch, autapse
    from autapse.native import library
    {prologue}
    torch.manual_seed(0)
    layer, x = autapse.UGRNN(3, 5, dtype=torch.float64), torch.randn(4, 2, 3, dtype=torch.float64)
    outputs = [layer(x)[0].flatten().tolist() for _ in range(3)]
    torch.manual_seed(0)
    autapse.GRU(3, 5)(torch.randn(4, 2, 3))
    def tasks():
        return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0
    torch.set_num_threads(5)
    before = tasks()
    if library.available():
        with torch.no_grad():
            autapse.UGRNN(64, 64)(torch.randn(20, 30, 64))
    started = tasks() - before
said = [str(w.message) for w in seen if "autapse" in str(w.message)]
print(json.dumps(library.info() | {{"outputs": outputs, "said": said, "started": started}}))
"""


def report_of(prologue: str = "", **environment: str) -> dict[str, Any]:
    clean = {k: v for k, v in os.environ.items() if k not in (library.SWITCH, library.INSTRUCTION_SET)}
    program = [sys.executable, "-c", PROGRAM.format(prologue=prologue)]
    done = subprocess.run(program, env=clean | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def expected_output() -> Tensor:
    """What the program's layer gives by the reference."""
    torch.manual_seed(0)
    layer, x = autapse.UGRNN(3, 5, dtype=torch.float64), torch.randn(4, 2, 3, dtype=torch.float64)
    (states,), _ = scan_reference(layer.cells["l0"], x.flatten(0, 1), (x.new_zeros(2, 5),), [2] * 4)
    return states.flatten().detach()


def check_outputs(report: dict[str, Any]) -> None:
    for output in report["outputs"]:
        close(torch.tensor(output, dtype=torch.float64), expected_output())


# Whether and which --------------------------------------------------------------------------------------------------


@needs_kernels
def test_info_says_what_runs() -> None:
    info = library.info()
    assert set(info) == {"available", "reason", "instruction_set", "instruction_sets", "threads", "version", "path"}
    assert info["available"] is True
    assert info["reason"] == ""
    assert info["instruction_set"] in info["instruction_sets"]
    assert info["instruction_sets"] == [n for n in library.INSTRUCTION_SETS if n in info["instruction_sets"]]
    assert info["instruction_sets"][-1] == "baseline"
    assert info["threads"] == torch.get_num_threads()
    assert info["version"] in (autapse.__version__, "unknown")  # built by the package, or by hand
    assert Path(info["path"]).is_file()


def test_info_is_where_its_docstring_says() -> None:
    """`import autapse` is enough for autapse.native.info()."""
    done = subprocess.run(
        [sys.executable, "-c", "import autapse; print(autapse.native.info()['available'])"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() in ("True", "False"), done.stderr


def test_switched_off_by_the_environment() -> None:
    report = report_of(**{library.SWITCH: "0"})
    assert report["available"] is False
    assert library.SWITCH in report["reason"]
    assert report["instruction_set"] is None
    assert report["instruction_sets"] == []
    assert report["said"] == [], "who switches it off need not be told"
    check_outputs(report)


@pytest.mark.parametrize(
    ("value", "off"), [("0", True), ("off", True), (" FALSE ", True), ("no", True), ("1", False), ("", False)]
)
def test_what_switches_it_off(value: str, off: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.SWITCH, value)
    assert library.switched_off() is off


def test_a_missing_library_is_said_once() -> None:
    report = report_of("library._find = lambda: None")
    assert report["available"] is False
    (said,) = report["said"]
    assert report["reason"] in said
    assert "compiler" in said
    assert library.SWITCH in said
    check_outputs(report)


def test_a_file_that_is_no_library_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.so"
    broken.write_text("not a library")
    monkeypatch.delenv(library.SWITCH, raising=False)
    monkeypatch.setattr(library, "_find", lambda: broken)
    found = library.load.__wrapped__()  # past the cache
    assert found.library is None
    assert str(broken) in found.reason


@needs_kernels
@pytest.mark.parametrize("name", library.instruction_sets())
def test_the_environment_chooses_the_instruction_set(name: str) -> None:
    report = report_of(**{library.INSTRUCTION_SET: name})
    assert report["instruction_set"] == name
    assert report["said"] == []
    check_outputs(report)
    if sys.platform == "linux":
        assert report["started"] == 4, "with the calling thread, as many as torch.set_num_threads says"


@needs_kernels
def test_an_unknown_instruction_set_lists_the_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.INSTRUCTION_SET, "sse9")
    with pytest.raises(ValueError, match=f"{library.INSTRUCTION_SET}.*sse9") as raised:
        library.load.__wrapped__()  # past the cache
    assert ", ".join(library.instruction_sets()) in str(raised.value)


@needs_kernels
def test_use_of_an_unknown_instruction_set_changes_nothing() -> None:
    before = library.info()["instruction_set"]
    with pytest.raises(ValueError, match="baseline"):
        library.use("sse9")
    assert library.info()["instruction_set"] == before


# What a call does to its surroundings -------------------------------------------------------------------------------


@pytest.fixture
def denormal_mode() -> Iterator[None]:
    yield
    torch.set_flush_denormal(False)


def flushed() -> bool:
    """Whether a denormal product is zero in this thread, outside of the kernels."""
    return not (torch.full((64,), 1e-20) * torch.full((64,), 1e-20)).any()


@needs_kernels
@pytest.mark.usefixtures("denormal_mode")
@pytest.mark.parametrize("flush", [False, True])
def test_the_callers_denormal_mode_stays(flush: bool) -> None:
    if not torch.set_flush_denormal(flush):
        pytest.skip("this processor has no such mode")
    assert flushed() is flush
    case = make_case(named("GRU"), 3, 5, (4, 2))
    states, _ = case.run(scan_fused)
    assert flushed() is flush
    gradients(states, case.leaves)
    assert flushed() is flush


@needs_kernels
@pytest.mark.usefixtures("denormal_mode")
@pytest.mark.parametrize(("dtype", "tiny"), [(torch.float32, 1e-20), (torch.float64, 1e-160)])
@pytest.mark.parametrize("threads", [1, 2])
def test_denormals_are_zero_inside(dtype: torch.dtype, tiny: float, threads: int) -> None:
    """tiny² is a denormal number: as a drive, and as the product of matrix and state."""
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor has no such mode")
    case = tiny_case(dtype, tiny)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        (fused,), _ = case.run(scan_fused)
        (gradient,) = torch.autograd.grad(fused, case.x, torch.full_like(fused, tiny))
    finally:
        torch.set_num_threads(before)
    (expected,), _ = case.run(scan_reference)
    assert expected[: case.sizes[0]].all(), "the reference keeps denormals"
    assert not fused.any()
    assert not gradient.any()


def tiny_case(dtype: torch.dtype, tiny: float) -> Case:
    """An identity RNN, large enough for two threads."""
    cell = autapse.cells.RNN(64, 64, bias=False, nonlinearity="identity", dtype=dtype)
    with torch.no_grad():
        for weight in cell.parameters():
            weight.copy_(tiny * torch.eye(64, dtype=dtype))
    x, h0 = torch.full((16 * 8, 64), tiny, dtype=dtype), torch.full((16, 64), tiny, dtype=dtype)
    return Case(cell, x.requires_grad_(), (h0,), [16] * 8)


@needs_kernels
def test_other_threads_go_on_during_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter's lock is free: with threads that give way only where they wait, the other one still counts."""
    count, stop = [0], threading.Event()

    def other() -> None:
        while not stop.is_set():
            count[0] += 1
            time.sleep(0.0005)

    counted: list[int] = []
    run = library.run

    def watched(function: str, problem: library.ScanStruct) -> bool:
        before = count[0]
        done = run(function, problem)
        counted.append(count[0] - before)
        return done

    monkeypatch.setattr(library, "run", watched)
    case = make_case(named("LSTM"), 64, 128, (700,) * 16, torch.float32)
    interval = sys.getswitchinterval()
    thread = threading.Thread(target=other)
    sys.setswitchinterval(60.0)
    try:
        thread.start()
        states, _ = case.run(scan_fused)
        gradients(states, case.leaves)
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert len(counted) == 2, "one forward and one backward pass"
    assert min(counted) > 0


@needs_kernels
def test_calls_at_the_same_time_do_not_meet() -> None:
    """Each Python thread has buffers of its own."""
    cases = [make_case(network, 7, 61, tuple(range(40, 0, -3))) for network in one_per_kernel()]

    def everything(case: Case) -> list[Tensor]:
        states, final = case.run(scan_fused)
        return [*states, *final, *gradients([*states, *final], case.leaves)]

    expected = [everything(case) for case in cases]
    found: dict[int, list[list[Tensor]]] = {n: [] for n in range(len(cases))}

    def work(first: int) -> None:
        for n in range(first, len(cases), 3):
            found[n] += [everything(cases[n]) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, runs in found.items():
        assert len(runs) == 3
        for run in runs:
            same_bits(run, expected[n])


@needs_kernels
def test_a_call_works_after_one_that_found_no_memory() -> None:
    """In a thread of its own, whose buffers nobody else uses."""
    case = make_case(named("UGRNN"), 3, 5, (3, 2))
    (expected,), _ = case.run(scan_fused)
    outcome: list[Any] = []

    def work() -> None:
        case.run(scan_fused)
        sizes = torch.tensor([1 << 44])  # rows whose products would have 2^50 bytes, more than a process can address
        impossible = library.ScanStruct(form=KERNELS.index(UpdateGate), wide=1, threads=1, inner=1, steps=1)
        impossible.hidden = impossible.outputs = 8
        impossible.batch = impossible.rows = 1 << 44
        impossible.sizes = sizes.data_ptr()
        try:
            library.run("forward", impossible)
        except MemoryError as problem:
            outcome.append(str(problem))
        try:
            outcome.append(case.run(scan_fused)[0][0])
        except MemoryError as problem:
            outcome.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    message, after = outcome
    assert "smaller batch" in message
    assert isinstance(after, Tensor), "every later call of the thread fails as well"
    assert torch.equal(after, expected)


# The interface ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scan", "implicit", "red_black", "relaxation", "adjoint", "tridiagonal"])
def test_structs_have_the_fields_of_the_header(name: str) -> None:
    """In the order, and of the types, of src/abi.h."""
    header = Path(library.__file__).parent / "src" / "abi.h"
    if not header.exists():
        pytest.skip("this installation has no sources")
    text = re.sub(r"//[^\n]*", "", header.read_text())
    body = re.search(rf"struct autapse_{name} \{{(.*?)\}};", text, re.DOTALL)
    assert body is not None
    declared = []
    for line in body[1].split(";"):
        if line.strip():
            kind, names = re.fullmatch(r"(?:const\s+)?(\w+)\s*(.*)", line.strip(), re.DOTALL).groups()
            for field in names.split(","):
                pointer = "*" in field
                declared.append(
                    (field.strip(" *\n").removesuffix("[8]").removesuffix("[32]"), "pointer" if pointer else kind)
                )
    types = {
        ctypes.c_int32: "int32_t",
        ctypes.c_int64: "int64_t",
        ctypes.c_double: "double",
        ctypes.c_void_p: "pointer",
    }
    types |= {library.RedBlackStruct: "autapse_red_black", ctypes.c_void_p * library.MOST_OFFSETS: "pointer"}
    types |= {ctypes.c_int64 * MOST_DELAYS: "int64_t"}
    assert [
        (field, types[kind]) for field, kind in getattr(library, f"{name.title().replace('_', '')}Struct")._fields_
    ] == declared


def test_forms_and_activations_have_the_numbers_of_the_header() -> None:
    header = Path(library.__file__).parent / "src" / "abi.h"
    if not header.exists():
        pytest.skip("this installation has no sources")
    for kind, names in (("form", [form.name for form in KERNELS]), ("activation", ACTIVATIONS)):
        entries = re.search(rf"enum autapse_{kind} \{{(.*?)\}}", header.read_text(), re.DOTALL)[1]
        assert [e.strip().removeprefix("AUTAPSE_").lower() for e in entries.split(",")] == list(names)


COLUMNS = {  # of the reserve, in units of H: what the kernels' sources list
    "RNN": 0,
    "OrthogonalRNN": 0,
    "LeakyRNN-tau=tensor": 1,  # y
    "Reservoir-learn=True-topology=ring-nonlinearity=sigmoid": 1,  # y
    "LeakyRNN-form=pre-activation-tau=tensor-nonlinearity=sigmoid": 2,  # y, u + R y
    "Delayed-delays=(1,2,4)": 0,
    "Delayed-cell=ernn:eta=per_step:max_length=3:inner_steps=2:alignment=none-delays=(1,3)": 3,  # as ERNN
    "ERNN-eta=per_step-max_length=3-inner_steps=2-alignment=exact": 3,  # y of two inner steps, the state between them
    "RIN-transitions=3": 2,  # g after each map but the last
    "Deep-skip=True-transition_depth=2": 4,  # the same, and the value of each map but the first
    "FastGRNN": 2,
    "UGRNN": 2,
    "GRU": 4,  # r, z, n, what r multiplies
    "GRU-reset=before": 3,  # r, z, n
    "GORU": 4,  # as the GRU
    "CFN": 4,  # both gates, tanh(h), tanh(u_c)
    "KRU": 2,  # u + R h, real and imaginary parts
    "OrthogonalRNN-field=complex": 2,
    "LSTM": 4,
    "LSTM-peepholes=True-proj_size=2-forget_bias=-0.5": 4,
    "LSTM-peepholes=old": 4,
}


@needs_kernels
@every_kernel
def test_what_a_pass_saves(network: Network) -> None:
    """The reserve's columns and the cells for a backward pass; nothing at all without one."""
    operands, sizes, kind = as_operands(make_case(network, 3, 5, (4, 2, 0)))
    cells = operands.c0 is not None
    h, h_n, c, c_n, reserve = ops.scan(operands, sizes, kind, keep_cells=False, save=True)
    assert reserve.shape == (6, 5 * COLUMNS[str(network)])
    assert c.shape == ((6, 5) if cells else (0,))
    with torch.no_grad():
        free = ops.scan(operands, sizes, kind, keep_cells=False, save=False)
        kept = ops.scan(operands, sizes, kind, keep_cells=True, save=False)
    assert free[4].numel() == kept[4].numel() == 0
    assert free[2].numel() == 0
    same_bits([*free[:2], *kept[:4]], [h, h_n, h, h_n, c, c_n])


@needs_kernels
@every_kernel
def test_a_layer_saves_where_a_gradient_is_wanted(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[bool] = []
    scan = ops.scan
    monkeypatch.setattr(ops, "scan", lambda *given: saved.append(given[-1]) or scan(*given))
    layer, x = network.layer(), torch.randn(4, 2, 3, dtype=torch.float64)
    layer(x)
    with torch.no_grad():
        layer(x)
    with torch.inference_mode():
        layer(x)
    layer.requires_grad_(False)
    layer(x)
    layer(x.requires_grad_())
    assert saved == [True, False, False, False, True]
