"""Every launch compiles for a Hopper GPU, on a machine without one; the hot ones spill no register.

The launchers run on CPU tensors with their kernels replaced by recorders; what they would have launched is
compiled to machine code. The interpreter runs the same source but knows no types, so it does not see what this sees.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if find_spec("triton") is None:
    pytest.skip("Triton is not installed (there is none for this platform)", allow_module_level=True)

# ruff: noqa: E402  # what follows needs both
import triton
import triton.backends.nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels import decode_cases, prefill_cases
from kernels.decode_cases import Case
from kernels.prefill_cases import PrefillCase
from pagefault.attention import (
    append,
    backend,
    contiguous_decode,
    copy_frames,
    paged_decode,
    paged_prefill,
    read_floor,
)

if TYPE_CHECKING:
    from types import ModuleType

HOPPER = GPUTarget("cuda", 90, 32)
OPTIONS = ("num_warps", "num_stages", "launch_pdl")
TYPES = {
    torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8e4nv",
    torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
}  # fmt: skip


class Recorder:
    """Stands for a kernel: remembers its launches."""

    def __init__(self, kernel: Any, launches: list[tuple[Any, dict[str, Any]]]) -> None:
        self.kernel, self.launches = kernel, launches

    def __getitem__(self, grid: object) -> Any:
        def launch(*arguments: Any, **named: Any) -> None:
            given = dict(zip(self.kernel.arg_names, arguments, strict=False)) | named
            self.launches.append((self.kernel, given))

        return launch


class Module:
    """Stands for a module of kernels."""

    def __init__(self, module: ModuleType, launches: list[tuple[Any, dict[str, Any]]]) -> None:
        self._module, self._launches = module, launches

    def __getattr__(self, name: str) -> Recorder:
        return Recorder(getattr(self._module, name), self._launches)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, dict[str, Any]]]:
    """What the launchers launch meanwhile, as if on an H200."""
    recorded: list[tuple[Any, dict[str, Any]]] = []
    load = backend.kernel_module
    monkeypatch.setattr(backend, "pick", lambda *_: "triton")
    monkeypatch.setattr(backend, "multiprocessors", lambda _: 132)
    monkeypatch.setattr(backend, "has_dependent_launch", lambda _: True)
    monkeypatch.setattr(backend, "has_warpgroup_mma", lambda _: True)
    monkeypatch.setattr(backend, "kernel_module", lambda name: Module(load(name), recorded))
    return recorded


def source(kernel: Any, given: dict[str, Any]) -> ASTSource:
    """A launch as the compiler sees it, specialized as a launch would be: by ones, multiples of 16 and None."""
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for number, parameter in enumerate(kernel.params):
        name, value = parameter.name, given.get(parameter.name)
        is_one = type(value) is int and value == 1 and not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or is_one:
            signature[name], constants[name] = "constexpr", value
        elif torch.is_tensor(value):
            signature[name] = "*" + TYPES[value.dtype]
            attributes[(number,)] = [["tt.divisibility", 16]]
        elif isinstance(value, TensorDescriptor):
            box = f"{TYPES[value.base.dtype]}{value.block_shape}"
            signature[name] = f"tensordesc<{box},{value.layout!r}>"
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i32" if abs(value) < 2**31 else "i64"
            if value % 16 == 0 and not parameter.do_not_specialize:
                attributes[(number,)] = [["tt.divisibility", 16]]
    kind = GluonASTSource if isinstance(kernel, GluonJITFunction) else ASTSource
    return kind(kernel, signature, constants, attributes)


def spilled(compiled: Any, folder: Path) -> int:
    """Bytes of registers that the machine code stores to memory and loads again."""
    path = folder / "kernel.ptx"
    path.write_text(compiled.asm["ptx"])
    assembler = Path(triton.backends.nvidia.__file__).parent / "bin" / "ptxas"
    command = [str(assembler), "-v", "--gpu-name=sm_90a", str(path), "-o", str(folder / "kernel.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.findall(r"(\d+) bytes spill", said)
    assert found, f"the assembler said nothing of spills: {said}"
    return sum(map(int, found))


def compile_all(launches: list[tuple[Any, dict[str, Any]]], folder: Path) -> int:
    """Compiles what was launched; returns the bytes spilled."""
    assert launches
    total = 0
    for kernel, given in launches:
        options = {name: given.pop(name) for name in OPTIONS if name in given}
        total += spilled(triton.compile(source(kernel, given), target=HOPPER, options=options), folder)
    return total


A_FEW_BYTES = 64  # stored once, outside of any loop
EVERY: dict[str, Any] = {"window": 700, "softcap": 4.0}
LLAMA = Case("llama", (300, 20) * 4, 8, 4, 128, 16, "bf16")
DECODE = [
    LLAMA,
    replace(LLAMA, name="large", lengths=(2048,) * 32),
    replace(LLAMA, name="large, variants", lengths=(2048,) * 32, options=EVERY, alibi=True, sinks=True),
    replace(LLAMA, name="large, contiguous", lengths=(2048,) * 32, paged=False),
    replace(LLAMA, name="block 1", block_size=1),
    replace(LLAMA, name="large, block 1", lengths=(2048,) * 32, block_size=1),
    replace(LLAMA, name="256 sequences", lengths=(300, 20) * 128),
    replace(
        LLAMA, name="large, block 8, variants", lengths=(2048,) * 32, block_size=8, options=EVERY, alibi=True
    ),
    replace(LLAMA, name="fp8", dtype="fp8", heads_first=True),
    replace(LLAMA, name="fp8, variants", dtype="fp8", options=EVERY, alibi=True, sinks=True),
    replace(LLAMA, name="fixed splits", split_tokens=512),
    Case("write-up", (300, 20), 1, 1, 64, 16, "fp32"),
    Case("head dim 80, group 5", (300, 20), 2, 5, 80, 32, "fp16"),
]
PREFILL = [
    PrefillCase("llama", (300, 20), (100, 20), 8, 4, 128, 16, "bf16"),
    PrefillCase("llama, window", (300, 20), (100, 20), 8, 4, 128, 16, "bf16", options={"window": 100}),
    PrefillCase("32 sequences", (30, 20) * 16, (10, 20) * 16, 8, 4, 128, 16, "bf16", options={"window": 100}),
    PrefillCase("head dim 64, group 7, block 64", (300,), (100,), 2, 7, 64, 64, "fp16"),
    PrefillCase(
        "variants", (300, 20), (100, 20), 8, 4, 128, 16, "bf16", options=EVERY, alibi=True, sinks=True
    ),
    PrefillCase("fp8", (300, 20), (100, 20), 8, 4, 128, 16, "fp8", heads_first=True),
    PrefillCase("head dim 80, group 5, block 64", (300,), (100,), 2, 5, 80, 64, "fp16"),
    PrefillCase("fp32", (300,), (100,), 2, 4, 64, 16, "fp32"),
    PrefillCase("fp32, head dim 128", (300,), (100,), 2, 4, 128, 16, "fp32"),
    PrefillCase("head dim 256", (300,), (100,), 2, 4, 256, 16, "bf16"),
]


@pytest.mark.parametrize("case", DECODE, ids=lambda case: case.name)
def test_decode(case: Case, launches: list[tuple[Any, dict[str, Any]]], tmp_path: Path) -> None:
    q, view = decode_cases.tensors(case, "cpu")
    options = dict(case.options)
    if case.alibi:
        options |= {"alibi_slopes": torch.ones(q.shape[1]), "sinks": torch.ones(q.shape[1])}
    if case.split_tokens is not None:
        options["split_tokens"] = case.split_tokens
    call: Any = paged_decode if case.paged else contiguous_decode
    call(q, view, lse=torch.empty(q.shape[:2]), **options)
    assert compile_all(launches, tmp_path) == 0


@pytest.mark.parametrize("case", PREFILL, ids=lambda case: case.name)
def test_prefill(case: PrefillCase, launches: list[tuple[Any, dict[str, Any]]], tmp_path: Path) -> None:
    q, view, offsets = prefill_cases.tensors(case, "cpu")
    options = dict(case.options)
    if case.alibi:
        options |= {"alibi_slopes": torch.ones(q.shape[1]), "sinks": torch.ones(q.shape[1])}
    paged_prefill(q, view, offsets, lse=torch.empty(q.shape[:2]), **options)
    assert compile_all(launches, tmp_path) <= A_FEW_BYTES


def test_moving_and_reading(launches: list[tuple[Any, dict[str, Any]]], tmp_path: Path) -> None:
    for case in (LLAMA, replace(LLAMA, dtype="fp8")):
        _, view = decode_cases.tensors(case, "cpu")
        new = torch.randn(3, 8, 128, dtype=torch.bfloat16)
        append(new, new.clone(), torch.tensor([0, 5, -1]), view)  # type: ignore[arg-type]
        read_floor(view, torch.empty(10_000, dtype=torch.int32), 8)  # type: ignore[arg-type]
    copy_frames(torch.randn(8, 2, 16, 64), torch.tensor([1]), torch.tensor([2]))
    assert compile_all(launches, tmp_path) == 0
