"""GPUs by name: memory, bandwidth, arithmetic rates and the link to the host, each with its source.

All figures belong to one GPU. Rates are the vendor's peaks without sparsity (half of what datasheets print
"with sparsity"), with float32 accumulation where a card has two rates. Bandwidths are peaks as well: a large
read reaches about 90 to 95% of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from pagefault.errors import InputError

GB = 10**9
MIB = 2**20
TERA = 1e12

_NVIDIA_SMI = "nvidia-smi"
_TORCH = "CUDA device total"
_ROCM_SMI = "rocm-smi"
_DATASHEET = "datasheet"


@dataclass(frozen=True)
class HostLink:
    """One direction of the link between a GPU and its host.

    Attributes:
        name: What it is, for people.
        bytes_per_s: Bytes a second in one direction after line coding, before packet overhead.
    """

    name: str
    bytes_per_s: float


def _pcie(generation: int) -> HostLink:
    """Sixteen lanes: 8, 16, 32 GT/s with 128b/130b coding; 64 GT/s in flits, 242 of 256 bytes data."""
    transfers, coding = {
        3: (8e9, 128 / 130),
        4: (16e9, 128 / 130),
        5: (32e9, 128 / 130),
        6: (64e9, 242 / 256),
    }[generation]
    return HostLink(f"PCIe {generation}.0 x16", transfers * 16 / 8 * coding)


@dataclass(frozen=True)
class Gpu:
    """One GPU model.

    Attributes:
        name: Canonical name, as `find_gpu` takes it.
        title: The vendor's name.
        memory_bytes: Memory of one GPU.
        memory_source: Who says so: a driver (what a process can really see, or close to it) or the datasheet.
        bandwidth: Peak memory bandwidth, B/s.
        flops_16: Dense matrix rate in bf16 (fp16 where a card has no bf16), FLOP/s.
        flops_8: Dense matrix rate in fp8, FLOP/s; None where the card has none.
        host_link: The link to the host's memory.
        source: Where bandwidth and rates come from.
        aliases: Other names.
    """

    name: str
    title: str
    memory_bytes: int
    memory_source: str
    bandwidth: float
    flops_16: float
    flops_8: float | None
    host_link: HostLink
    source: str
    aliases: tuple[str, ...] = ()

    @property
    def host_bytes_per_s(self) -> float:
        """Bytes a second to or from host memory, one direction."""
        return self.host_link.bytes_per_s


_ALL = (
    Gpu(
        name="h200",
        title="NVIDIA H200 SXM 141 GB",
        memory_bytes=143_771 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=4.8 * TERA,
        flops_16=989.5 * TERA,
        flops_8=1979 * TERA,
        host_link=_pcie(5),
        source="NVIDIA H200 datasheet",
        aliases=("h200-sxm",),
    ),
    Gpu(
        name="h100-sxm",
        title="NVIDIA H100 SXM 80 GB",
        memory_bytes=81_559 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=3.35 * TERA,
        flops_16=989.5 * TERA,
        flops_8=1979 * TERA,
        host_link=_pcie(5),
        source="NVIDIA H100 datasheet",
        aliases=("h100", "h100-80gb"),
    ),
    Gpu(
        name="h100-pcie",
        title="NVIDIA H100 PCIe 80 GB",
        memory_bytes=81_559 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=2.039 * TERA,
        flops_16=756 * TERA,
        flops_8=1513 * TERA,
        host_link=_pcie(5),
        source="NVIDIA H100 PCIe product brief PB-11133",
    ),
    Gpu(
        name="h100-nvl",
        title="NVIDIA H100 NVL 94 GB",
        memory_bytes=95_830 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=3.9 * TERA,
        flops_16=835.5 * TERA,
        flops_8=1670.5 * TERA,
        host_link=_pcie(5),
        source="NVIDIA H100 datasheet",
    ),
    Gpu(
        name="h20",
        title="NVIDIA H20 96 GB",
        memory_bytes=97_871 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=4.0 * TERA,
        flops_16=148 * TERA,
        flops_8=296 * TERA,
        host_link=_pcie(5),
        source="NVIDIA H20 datasheet",
        aliases=("h20-96gb",),
    ),
    Gpu(
        name="a100-40gb",
        title="NVIDIA A100 SXM 40 GB",
        memory_bytes=40_960 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=1.555 * TERA,
        flops_16=312 * TERA,
        flops_8=None,
        host_link=_pcie(4),
        source="NVIDIA A100 datasheet",
    ),
    Gpu(
        name="a100-80gb",
        title="NVIDIA A100 SXM 80 GB",
        memory_bytes=81_920 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=2.039 * TERA,
        flops_16=312 * TERA,
        flops_8=None,
        host_link=_pcie(4),
        source="NVIDIA A100 datasheet",
        aliases=("a100", "a100-sxm"),
    ),
    Gpu(
        name="a10",
        title="NVIDIA A10 24 GB",
        memory_bytes=23_028 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=0.6 * TERA,
        flops_16=125 * TERA,
        flops_8=None,
        host_link=_pcie(4),
        source="NVIDIA A10 datasheet",
    ),
    Gpu(
        name="a6000",
        title="NVIDIA RTX A6000 48 GB",
        memory_bytes=49_140 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=0.768 * TERA,
        flops_16=154.8 * TERA,
        flops_8=None,
        host_link=_pcie(4),
        source="NVIDIA Ampere GA102 whitepaper, appendix A",
        aliases=("rtx-a6000",),
    ),
    Gpu(
        name="l4",
        title="NVIDIA L4 24 GB",
        memory_bytes=23_034 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=0.3 * TERA,
        flops_16=121 * TERA,
        flops_8=242.5 * TERA,
        host_link=_pcie(4),
        source="NVIDIA L4 datasheet",
    ),
    Gpu(
        name="l40s",
        title="NVIDIA L40S 48 GB",
        memory_bytes=46_068 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=0.864 * TERA,
        flops_16=362.05 * TERA,
        flops_8=733 * TERA,
        host_link=_pcie(4),
        source="NVIDIA L40S datasheet",
    ),
    Gpu(
        name="rtx-4090",
        title="NVIDIA GeForce RTX 4090 24 GB",
        memory_bytes=25_250_627_584,
        memory_source=_TORCH,
        bandwidth=1.008 * TERA,
        flops_16=165.2 * TERA,
        flops_8=330.3 * TERA,
        host_link=_pcie(4),
        source="NVIDIA Ada GPU architecture whitepaper, appendix A",
        aliases=("4090", "rtx4090"),
    ),
    Gpu(
        name="rtx-5090",
        title="NVIDIA GeForce RTX 5090 32 GB",
        memory_bytes=32_607 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=1.792 * TERA,
        flops_16=209.5 * TERA,
        flops_8=419 * TERA,
        host_link=_pcie(5),
        source="NVIDIA RTX Blackwell GPU architecture whitepaper, appendix A",
        aliases=("5090", "rtx5090"),
    ),
    Gpu(
        name="rtx-3090",
        title="NVIDIA GeForce RTX 3090 24 GB",
        memory_bytes=24_576 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=0.936 * TERA,
        flops_16=71 * TERA,
        flops_8=None,
        host_link=_pcie(4),
        source="NVIDIA Ampere GA102 whitepaper, table 9",
        aliases=("3090", "rtx3090"),
    ),
    Gpu(
        name="b200",
        title="NVIDIA B200 SXM 180 GB",
        memory_bytes=183_359 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=8.0 * TERA,
        flops_16=2250 * TERA,
        flops_8=4500 * TERA,
        host_link=_pcie(5),
        source="NVIDIA DGX B200 datasheet, an eighth of it",
    ),
    Gpu(
        name="b300",
        title="NVIDIA B300 SXM 288 GB",
        memory_bytes=275_040 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=8.0 * TERA,
        flops_16=2250 * TERA,
        flops_8=4500 * TERA,
        host_link=_pcie(6),
        source="NVIDIA HGX B300 datasheet, an eighth of it",
    ),
    Gpu(
        name="gb200",
        title="NVIDIA GB200 186 GB, one GPU of the two",
        memory_bytes=189_471 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=8.0 * TERA,
        flops_16=2500 * TERA,
        flops_8=5000 * TERA,
        host_link=HostLink("NVLink-C2C, half of the 450 GB/s that two GPUs share", 225e9),
        source="NVIDIA GB200 NVL72 datasheet, half a superchip",
    ),
    Gpu(
        name="mi300x",
        title="AMD Instinct MI300X 192 GB",
        memory_bytes=206_141_652_992,
        memory_source=_ROCM_SMI,
        bandwidth=5.3 * TERA,
        flops_16=1307.4 * TERA,
        flops_8=2614.9 * TERA,
        host_link=_pcie(5),
        source="AMD Instinct MI300X datasheet",
    ),
    Gpu(
        name="mi325x",
        title="AMD Instinct MI325X 256 GB",
        memory_bytes=256 * GB,
        memory_source=_DATASHEET,
        bandwidth=6.0 * TERA,
        flops_16=1307.4 * TERA,
        flops_8=2614.9 * TERA,
        host_link=_pcie(5),
        source="AMD Instinct MI325X datasheet",
    ),
    Gpu(
        name="mi355x",
        title="AMD Instinct MI355X 288 GB",
        memory_bytes=288 * GB,
        memory_source=_DATASHEET,
        bandwidth=8.0 * TERA,
        flops_16=2516.6 * TERA,
        flops_8=5033.2 * TERA,
        host_link=_pcie(5),
        source="AMD Instinct MI355X datasheet",
    ),
    Gpu(
        name="v100",
        title="NVIDIA V100 SXM2 32 GB",
        memory_bytes=32_768 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=0.9 * TERA,
        flops_16=125 * TERA,
        flops_8=None,
        host_link=_pcie(3),
        source="NVIDIA V100 datasheet",
        aliases=("v100-32gb", "v100-sxm2"),
    ),
    Gpu(
        name="v100-16gb",
        title="NVIDIA V100 SXM2 16 GB",
        memory_bytes=16_384 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=0.9 * TERA,
        flops_16=125 * TERA,
        flops_8=None,
        host_link=_pcie(3),
        source="NVIDIA V100 datasheet",
    ),
    Gpu(
        name="t4",
        title="NVIDIA T4 16 GB",
        memory_bytes=15_360 * MIB,
        memory_source=_NVIDIA_SMI,
        bandwidth=0.32 * TERA,
        flops_16=65 * TERA,
        flops_8=None,
        host_link=_pcie(3),
        source="NVIDIA T4 datasheet",
    ),
)

GPUS: dict[str, Gpu] = {gpu.name: gpu for gpu in _ALL}
"""Every GPU known, by canonical name."""

_BY_NAME = {name: gpu for gpu in _ALL for name in (gpu.name, *gpu.aliases)}


def find_gpu(name: str) -> Gpu:
    """The GPU of this name or alias; case does not matter, and ``_`` or a blank may stand for ``-``.

    Raises:
        InputError: No such GPU; the message names those that look like it, or all.
    """
    key = "-".join(name.lower().replace("_", " ").replace("-", " ").split()).removeprefix("nvidia-")
    if key in _BY_NAME:
        return _BY_NAME[key]
    near = get_close_matches(key, _BY_NAME, n=4, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}" if near else f"known are {', '.join(GPUS)}"
    raise InputError(
        f"unknown GPU {name!r}; {hint}; --budget-gb takes the memory for the KV cache of any other"
    )
