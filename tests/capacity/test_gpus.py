from __future__ import annotations

import pytest

from pagefault.capacity import GPUS, Gpu, find_gpu
from pagefault.errors import InputError

NAMES = [
    "h200",
    "h100-sxm",
    "h100-pcie",
    "h100-nvl",
    "h20",
    "a100-40gb",
    "a100-80gb",
    "a10",
    "a6000",
    "l4",
    "l40s",
    "rtx-4090",
    "rtx-5090",
    "rtx-3090",
    "b200",
    "b300",
    "gb200",
    "mi300x",
    "mi325x",
    "mi355x",
    "v100",
    "t4",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_gpu_is_found_by_its_name(name: str) -> None:
    assert find_gpu(name) is GPUS[name]


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_figures_are_of_the_right_size_and_have_a_source(gpu: Gpu) -> None:
    assert 14e9 < gpu.memory_bytes < 300e9
    assert 0.25e12 < gpu.bandwidth <= 8e12
    assert 60e12 < gpu.flops_16 < 3e15
    assert gpu.flops_8 is None or 1.9 < gpu.flops_8 / gpu.flops_16 < 2.1
    assert 15e9 < gpu.host_bytes_per_s < 250e9
    assert gpu.source
    assert gpu.memory_source in ("nvidia-smi", "rocm-smi", "CUDA device total", "datasheet")


def test_the_memory_is_what_the_title_says() -> None:
    for gpu in GPUS.values():
        titled = next(int(word) for word in gpu.title.split() if word.isdigit() and f"{word} GB" in gpu.title)
        assert titled * 0.93e9 < gpu.memory_bytes < titled * 1.075e9, gpu.name  # some titles are GiB


def test_no_name_stands_for_two() -> None:
    names = [name for gpu in GPUS.values() for name in (gpu.name, *gpu.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("given", "name"),
    [("H100", "h100-sxm"), ("a100", "a100-80gb"), ("NVIDIA RTX 4090", "rtx-4090"), ("rtx_3090", "rtx-3090")],
)
def test_aliases_and_spellings(given: str, name: str) -> None:
    assert find_gpu(given).name == name


def test_driver_figures() -> None:
    assert find_gpu("h200").memory_bytes == 143_771 * 2**20
    assert find_gpu("rtx-4090").memory_bytes == 25_250_627_584
    assert find_gpu("h100").memory_bytes == 81_559 * 2**20


def test_pcie_rates_are_those_of_sixteen_lanes() -> None:
    assert find_gpu("v100").host_bytes_per_s == pytest.approx(15.75e9, rel=1e-3)
    assert find_gpu("a100").host_bytes_per_s == pytest.approx(31.5e9, rel=1e-3)
    assert find_gpu("h200").host_bytes_per_s == pytest.approx(63.0e9, rel=1e-3)
    assert find_gpu("b300").host_bytes_per_s == pytest.approx(121e9, rel=1e-3)


def test_an_unknown_gpu_gets_near_names() -> None:
    with pytest.raises(InputError, match=r"unknown GPU 'h201'; did you mean .*h200.*--budget-gb"):
        find_gpu("h201")


def test_a_gpu_like_no_other_gets_all_names() -> None:
    with pytest.raises(InputError, match=r"unknown GPU 'voodoo'; known are h200, .*t4"):
        find_gpu("voodoo")
