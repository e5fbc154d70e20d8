"""From a Hugging Face ``config.json`` to a `ModelShape`, field by field.

What is not understood is refused with the field named: a model type that is not listed here, a kind of layer,
head counts that do not divide. Nothing is guessed: a default is taken only where the model type itself defines
one, and then it is noted.
"""

from __future__ import annotations

import json
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pagefault.capacity.decoders import DENSE
from pagefault.capacity.defaults import ABSENT, INSIDE
from pagefault.capacity.dtypes import find_dtype
from pagefault.capacity.elders import ELDERS
from pagefault.capacity.experts import SPARSE
from pagefault.capacity.fields import Fields, shown
from pagefault.capacity.hybrids import HYBRID
from pagefault.capacity.parts import Attention, Decoder, DeltaNet, Latent, Mamba2
from pagefault.capacity.presets import PRESETS
from pagefault.capacity.shapes import FixedState, KVGroup, ModelShape
from pagefault.capacity.weights import Uncounted, weigh
from pagefault.errors import ConfigError, InputError

_OF_REPOSITORY = {preset.source.split(",")[0].lower(): preset for preset in PRESETS.values()}

FAMILIES = DENSE | SPARSE | HYBRID | ELDERS
"""Readers by ``model_type``."""

NESTED = {
    "gemma3": "gemma3_text",
    "idefics3": "llama",
    "kimi_k25": "deepseek_v3",
    "llama4": "llama4_text",
    "llava": "llama",
    "mistral3": "mistral",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen2_vl": "qwen2_vl_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "smolvlm": "llama",
}
"""Model types with a decoder inside (``text_config``), and that decoder's type where it does not say."""

_INHERITED = ("dtype", "torch_dtype", "tie_word_embeddings", "quantization_config")
_DTYPES = ("float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2")
"""What ``torch_dtype`` may be."""

_DTYPE_OF_BYTES = {4: "float32", 2: "float16", 1: "fp8_e4m3"}


def load_model(name_or_path: str) -> ModelShape:
    """A model by preset name, or from a ``config.json``, or from a folder that has one.

    Args:
        name_or_path: A name of `PRESETS` or its Hugging Face repository, in any case, or a path; a path that exists
            wins.

    Returns:
        Its shape, named as it was asked for.

    Raises:
        ConfigError: No such preset or file, or a configuration that is not understood; the field is named.
    """
    path = _existing(name_or_path)
    if path is not None:
        return _from_path(path)
    preset = PRESETS.get(name_or_path.lower()) or _OF_REPOSITORY.get(name_or_path.lower())
    if preset is None:
        raise _not_found(name_or_path)
    shape = read_config(preset.config, preset.name)
    return replace(shape, notes=(f"preset {preset.name}: {preset.source}", *shape.notes))


def _existing(name: str) -> Path | None:
    """What is there under this path, or None; a name that cannot be a path is none."""
    try:
        path = Path(name).expanduser()
        return path if name and path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, no such user's home
        return None


def _not_found(name: str) -> ConfigError:
    if name.endswith(".json"):
        return ConfigError(f"no file {shown(name)}; expected a Hugging Face config.json or a folder with one")
    last = name.lower().rsplit("/", 1)[-1]
    near = get_close_matches(last, PRESETS, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}" if near else f"presets are {', '.join(PRESETS)}"
    return ConfigError(
        f"no model {shown(name)}: neither a preset nor a path; {hint}; or give a config.json, a folder with "
        "one, or custom"
    )


def custom_model(layers: int, kv_heads: int, head_dim: int, dtype_bytes: int = 2) -> ModelShape:
    """A model of which only the cache is known: as many query heads as KV heads, weights unknown.

    Args:
        layers: Layers.
        kv_heads: KV heads.
        head_dim: Values a head.
        dtype_bytes: Bytes a value: 4, 2 or 1.

    Raises:
        InputError: A number is out of range.
    """
    for flag, value in (("--layers", layers), ("--kv-heads", kv_heads), ("--head-dim", head_dim)):
        if value < 1:
            raise InputError(f"{flag} is {value}, expected 1 or more")
    if dtype_bytes not in _DTYPE_OF_BYTES:
        raise InputError(
            f"--dtype-bytes is {dtype_bytes}, expected 4, 2 or 1 (--kv-dtype int4 has half a byte)"
        )
    return ModelShape(
        name="custom",
        model_type="custom",
        layers=layers,
        hidden_size=kv_heads * head_dim,
        attention_heads=kv_heads,
        dtype=_DTYPE_OF_BYTES[dtype_bytes],
        max_position=None,
        groups=(KVGroup("full", layers, kv_heads, head_dim, head_dim),),
        uncounted="a custom model has only a cache",
    )


def _from_path(path: Path) -> ModelShape:
    name = path.name if path.is_dir() else path.stem
    if path.is_dir():
        path = path / "config.json"
        if not path.is_file():
            raise ConfigError(f"{path.parent} has no config.json; give a folder with one, or the file itself")
    elif path.name == "config.json":
        name = path.resolve().parent.name
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deep; expected a Hugging Face config.json") from error
    except ValueError as error:  # not JSON, not text, a number of thousands of digits
        raise ConfigError(f"{path} is not JSON ({error}); expected a Hugging Face config.json") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds {shown(values)}, expected a JSON object")
    return read_config(values, name, str(path))


def read_config(values: dict[str, Any], name: str, source: str | None = None) -> ModelShape:
    """The shape that a configuration describes.

    Args:
        values: The ``config.json`` as Python objects.
        name: What to call the model.
        source: What errors call the configuration; `name` if None.

    Raises:
        ConfigError: Something in it is missing or not understood.
    """
    outer = Fields(values, source or name)
    fields, model_type, outside = _decoder_fields(outer, values)
    dtype = _dtype(fields)
    decoder = FAMILIES[model_type](fields)
    if outside:
        decoder = replace(decoder, uncounted=f"the model has a {outside} besides its decoder")
    weights, uncounted = None, ""
    try:
        weights = weigh(decoder, dtype, fields.inner("quantization_config"))
    except Uncounted as reason:
        uncounted = str(reason)
    return ModelShape(
        name=name,
        model_type=outer.text("model_type") or model_type,
        layers=len(decoder.layers),
        hidden_size=decoder.hidden,
        attention_heads=decoder.heads,
        dtype=dtype,
        max_position=_max_position(fields),
        groups=_groups(decoder),
        state=_states(decoder),
        weights=weights,
        uncounted=uncounted,
        notes=tuple(dict.fromkeys(fields.notes)),
    )


def _decoder_fields(outer: Fields, values: dict[str, Any]) -> tuple[Fields, str, str]:
    """The decoder's own fields and type, and what the model has besides (``vision_config``), or an empty string."""
    model_type = outer.text("model_type")
    if model_type is None:
        raise outer.error("model_type", "missing", "the type of a Hugging Face model, such as llama")
    outside = next((field for field in ("vision_config", "audio_config") if field in outer), "")
    inner = outer.inner("text_config")
    if model_type in FAMILIES and inner is None:
        return outer.assuming(ABSENT.get(model_type, {})), model_type, outside
    if model_type not in NESTED:
        known = sorted(FAMILIES.keys() | NESTED.keys())
        near = get_close_matches(model_type, known, n=3, cutoff=0.6)
        raise outer.error("model_type", shown(model_type), f"one of {', '.join(near or known)}")
    if inner is None:  # early files of some models keep the decoder's fields at the top
        if "hidden_size" not in outer:
            raise outer.error("text_config", "missing", "the decoder's fields")
        own = NESTED[model_type]
        return outer.assuming(ABSENT.get(own, {})), own, outside or "vision tower"
    own = inner.text("model_type") or NESTED[model_type]
    if own not in FAMILIES:
        raise inner.error("model_type", shown(own), f"a decoder such as {NESTED[model_type]}")
    inherited = {field: values[field] for field in _INHERITED if field in outer and field not in inner}
    assumed = ABSENT.get(own, {}) | INSIDE.get(own, {})
    return inner.inheriting(inherited).assuming(assumed), own, outside or "vision tower"


def _dtype(fields: Fields) -> str | None:
    """The canonical name of the model's own dtype, or None where the configuration names none.

    Raises:
        ConfigError: It is none that activations can have.
    """
    field = "dtype" if "dtype" in fields else "torch_dtype"
    name = fields.text(field)
    if name is None:
        return None
    try:
        dtype = find_dtype(name)
    except InputError:
        dtype = None
    if dtype is None or dtype.name not in _DTYPES:
        raise fields.error(field, shown(name), f"one of {', '.join(_DTYPES)}")
    return dtype.name


def _max_position(fields: Fields) -> int | None:
    for name in ("max_position_embeddings", "n_positions", "max_sequence_length"):
        if name in fields:
            return fields.count(name)
    return None


def _groups(decoder: Decoder) -> tuple[KVGroup, ...]:
    """Layers that store the same, in order of first appearance."""
    counts: dict[KVGroup, int] = {}
    for layer in decoder.layers:
        if isinstance(layer.mixer, Attention | Latent):
            group = layer.mixer.group()
            counts[group] = counts.get(group, 0) + 1
    return tuple(replace(group, layers=count) for group, count in counts.items())


def _states(decoder: Decoder) -> tuple[FixedState, ...]:
    counts: dict[FixedState, int] = {}
    for layer in decoder.layers:
        if isinstance(layer.mixer, DeltaNet | Mamba2):
            state = layer.mixer.state()
            counts[state] = counts.get(state, 0) + 1
    return tuple(replace(state, layers=count) for state, count in counts.items())
