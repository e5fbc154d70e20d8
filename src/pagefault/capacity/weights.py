"""What a model's weights weigh: parameters times bytes, part by part, where a checkpoint is quantized.

Quantized checkpoints shrink the linear layers of the decoder (or only its experts); embeddings, output layer,
norms, routers and biases keep the model's dtype. Scales of groups and blocks are counted; those of a whole row or
matrix are not: they are less than a thousandth.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pagefault.capacity.dtypes import find_dtype
from pagefault.capacity.fields import shown
from pagefault.capacity.parts import Mlp, Moe
from pagefault.capacity.shapes import Weights

if TYPE_CHECKING:
    from pagefault.capacity.fields import Fields
    from pagefault.capacity.parts import Decoder, Tally

_SMALL = re.compile(
    r"(.*\.)?(lm_head|output|embed\w*|\w*norm\w*|gate|router|shared_expert_gate|conv1d)[$)]*(\.weight|\.\*)?[$)]*"
    r"|.*(vision|visual|multi_modal).*"
)
"""Modules in an ignore list that are counted in 16 bits in any case, or not counted at all."""

_KINDS = {
    "attention": re.compile(r".*(self_attn|self_attention|attention)(\W.*)?"),
    "shared experts": re.compile(r".*shared_experts?(\W.*)?"),
    "dense layers": re.compile(
        r".*mlp\W+\(?(gate|up|down|gate_up|gate_proj|up_proj|down_proj)(\W.*|_proj.*)"
    ),
}
"""Linear layers that an ignore list may keep in 16 bits, by how their modules are named."""

_IGNORE_LISTS = (
    "modules_to_not_convert",
    "ignored_layers",
    "ignore",
    "exclude_modules",
    "llm_int8_skip_modules",
)


_MOST_BITS = 16
"""A quantized weight has no more."""


class _Bits(NamedTuple):
    """Bits a weight, scales included."""

    matrices: float
    experts: float
    said: str


class Uncounted(Exception):
    """Why weights cannot be counted."""


def weigh(decoder: Decoder, dtype: str | None, quantization: Fields | None) -> Weights:
    """The parameters of a decoder and the size of its checkpoint.

    Args:
        decoder: The model, in parts.
        dtype: The model's dtype.
        quantization: The ``quantization_config``, or None.

    Raises:
        Uncounted: They cannot be counted; the message is the reason, in the middle of a sentence.
    """
    if decoder.uncounted:
        raise Uncounted(decoder.uncounted)
    if dtype is None:
        raise Uncounted("it names no dtype (dtype or torch_dtype)")
    tally = decoder.tally()
    width = find_dtype(dtype).bits
    moe = next((layer.ffn for layer in decoder.layers if isinstance(layer.ffn, Moe)), None)
    idle = 0 if moe is None else tally.experts * (moe.experts - moe.per_token) // moe.experts
    bits = _Bits(width, width, dtype) if quantization is None else _quantized(quantization, decoder, width)
    size = (tally.matrices * bits.matrices + tally.experts * bits.experts + tally.rest * width) / 8
    return Weights(
        parameters=tally.total,
        active=tally.total - idle,
        bytes=-int(-size // 1),
        formula=_formula(tally, bits, width),
        lookup=decoder.embedding if decoder.head else 0,
        experts=moe.experts if moe else 0,
        experts_per_token=moe.per_token if moe else 0,
    )


def _formula(tally: Tally, bits: _Bits, width: int) -> str:
    sizes: dict[float, int] = {width: tally.rest}
    for size, count in ((bits.matrices, tally.matrices), (bits.experts, tally.experts)):
        if count:
            sizes[size] = sizes.get(size, 0) + count
    parts = " + ".join(f"{count:,} × {_bytes(size)}" for size, count in sorted(sizes.items()) if count)
    return f"{parts} ({bits.said})"


def _bytes(bits: float) -> str:
    return f"{bits / 8:g} B"


def _quantized(config: Fields, decoder: Decoder, width: int) -> _Bits:
    method = config.text("quant_method")
    readers = {
        "fp8": _fp8,
        "awq": _grouped,
        "gptq": _grouped,
        "compressed-tensors": _compressed,
        "bitsandbytes": _bitsandbytes,
        "mxfp4": _mxfp4,
        "modelopt": _modelopt,
    }
    if method not in readers:
        said = "missing" if method is None else f"{shown(method)}, which is not known"
        raise Uncounted(f"its quantization_config.quant_method is {said}")
    bits = readers[method](config, width)
    if decoder.tally().experts and method == "bitsandbytes":
        raise Uncounted("bitsandbytes leaves some kinds of experts as they are")
    if bits.matrices != width and _keeps_matrices(config, decoder):
        return bits._replace(matrices=width, said=f"experts {bits.said}")
    return bits


def _keeps_matrices(config: Fields, decoder: Decoder) -> bool:
    """Whether ignore lists leave every linear layer but the routed experts in 16 bits; False if they leave none.

    Raises:
        Uncounted: They leave some.
    """
    kept: dict[str, str] = {}
    for name in _IGNORE_LISTS:
        for module in config.items(name, str) or []:
            plain = module.removeprefix("re:")
            if _SMALL.fullmatch(plain):
                continue
            kind = next((kind for kind, named in _KINDS.items() if named.fullmatch(plain)), "")
            if not kind or re.search(r"layers\W+\d", plain):
                raise Uncounted(f"its quantization_config.{name} leaves {shown(module)} in 16 bits")
            kept[kind] = f"{name} leaves {shown(module)}"
    if not kept:
        return False
    quantized = _matrix_kinds(decoder) - kept.keys()
    if quantized:
        raise Uncounted(f"its quantization_config.{next(iter(kept.values()))} in 16 bits")
    return True


def _matrix_kinds(decoder: Decoder) -> set[str]:
    kinds = set()
    for layer in decoder.layers:
        if layer.mixer is not None:
            kinds.add("attention")
        if isinstance(layer.ffn, Mlp):
            kinds.add("dense layers")
        elif layer.ffn is not None and layer.ffn.shared:
            kinds.add("shared experts")
    return kinds


def _fp8(config: Fields, width: int) -> _Bits:  # noqa: ARG001
    block = config.pair("weight_block_size")
    if block is None:
        return _Bits(8, 8, "fp8")
    bits = 8 + 32 / (block[0] * block[1])
    return _Bits(bits, bits, f"fp8, a float32 scale for each {block[0]} × {block[1]}")


def _grouped(config: Fields, width: int) -> _Bits:  # noqa: ARG001
    bits = config.count("bits", "w_bit", most=_MOST_BITS)
    group = config.count("group_size", "q_group_size", least=-1)  # -1: one for each row
    if config.flag("lm_head", False):
        raise Uncounted("its quantization_config.lm_head is true")
    scales = 0 if group < 1 else (16 + bits) / group
    each = bits + scales
    said = f"{config.text('quant_method')}, {bits} bits"
    if scales:
        said += f", a float16 scale and a {bits}-bit zero for each {group}"
    return _Bits(each, each, said)


def _compressed(config: Fields, width: int) -> _Bits:  # noqa: ARG001
    groups = config.inner("config_groups")
    found = [groups.inner(name) for name in groups.names()] if groups else []
    weights = [group.inner("weights") for group in found if group is not None]
    if len(weights) != 1 or weights[0] is None:
        raise Uncounted("its quantization_config.config_groups is not one group with weights")
    only = weights[0]
    bits, strategy = only.count("num_bits", most=_MOST_BITS), only.text("strategy")
    if strategy in ("tensor", "channel"):
        scales, said = 0.0, ""
    elif strategy == "group":
        zero = 0 if only.flag("symmetric", True) else bits
        group = only.count("group_size")
        scales = (16 + zero) / group
        said = f", a 16-bit scale{' and a zero' if zero else ''} for each {group}"
    elif strategy == "tensor_group":
        group = only.count("group_size")
        scales, said = 8 / group, f", an 8-bit scale for each {group}"
    elif strategy == "block":
        block = only.pair("block_structure")
        if block is None:
            raise Uncounted("its quantization_config has a block strategy without block_structure")
        scales, said = 32 / (block[0] * block[1]), f", a float32 scale for each {block[0]} × {block[1]}"
    else:
        raise Uncounted(
            f"its quantization_config has the weight strategy {shown(strategy)}, which is not known"
        )
    return _Bits(bits + scales, bits + scales, f"compressed-tensors, {bits} bits{said}")


def _bitsandbytes(config: Fields, width: int) -> _Bits:  # noqa: ARG001
    if config.flag("load_in_8bit", False):
        return _Bits(8, 8, "bitsandbytes, 8 bits")
    if not config.flag("load_in_4bit", False):
        raise Uncounted("its quantization_config has neither load_in_4bit nor load_in_8bit")
    if config.flag("bnb_4bit_use_double_quant", False):
        bits = 4 + 8 / 64 + 32 / (64 * 256)
        return _Bits(
            bits, bits, "bitsandbytes, 4 bits, an 8-bit scale for each 64 and a float32 for each 256 of them"
        )
    return _Bits(4.5, 4.5, "bitsandbytes, 4 bits, a float32 scale for each 64")


def _mxfp4(config: Fields, width: int) -> _Bits:  # noqa: ARG001
    return _Bits(width, 4.25, "mxfp4 experts: 4 bits, an 8-bit scale for each 32")


def _modelopt(config: Fields, width: int) -> _Bits:  # noqa: ARG001
    algorithm = config.text("quant_algo")
    if algorithm == "FP8":
        return _Bits(8, 8, "fp8")
    if algorithm == "NVFP4":
        return _Bits(4.5, 4.5, "nvfp4: 4 bits, an 8-bit scale for each 16")
    raise Uncounted(f"its quantization_config.quant_algo is {shown(algorithm)}, which is not known")
