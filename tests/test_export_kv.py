"""The export of real activations: it writes what the model computed with, or nothing."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

# what follows needs it
import torch

from scripts import export_kv

SCRIPT = Path(export_kv.__file__)


def layer(tokens: int = 40, scale: float = 0.125) -> export_kv.Layer:
    """What a model would have computed, by PyTorch's own attention."""
    random = torch.Generator().manual_seed(0)
    q = 3 * torch.randn(tokens, 6, 64, generator=random)
    k, v = (torch.randn(tokens, 2, 64, generator=random) for _ in "kv")
    heads_first = [part.transpose(0, 1) for part in (q, k, v)]
    result = torch.nn.functional.scaled_dot_product_attention(
        heads_first[0], heads_first[1], heads_first[2], is_causal=True, scale=scale, enable_gqa=True
    )
    return export_kv.Layer(q, k, v, scale, result.transpose(0, 1).flatten(1))


def test_the_check_passes_what_explains_the_result() -> None:
    assert 0 < export_kv.check([layer(), layer(scale=0.25)]) < export_kv.TOLERANCE


@pytest.mark.parametrize(
    "wrong",
    [
        {"q": layer().q.roll(1, 2)},  # as if before rotary embedding
        {"k": layer().k.flip(1)},  # KV heads in another order
        {"v": layer().v.roll(1, 0)},
        {"scale": 0.126},
        {"result": layer().result.masked_fill(torch.arange(384) == 7, float("nan"))},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_the_check_fails_what_does_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        export_kv.Differs, match="layer 1: plain causal attention over the recorded q, k and v"
    ):
        export_kv.check([layer(), replace(layer(), **wrong)])


def run(*arguments: object, packages: bool = True) -> tuple[int, str]:
    """The script as a person runs it; without packages, Python's -S leaves out what is installed."""
    command = [sys.executable, *([] if packages else ["-S"]), str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    out, text = tmp_path / "kv.safetensors", tmp_path / "text.txt"
    assert run(out, packages=False) == (
        2,
        "export_kv: error: exporting needs torch, transformers, safetensors, gguf, accelerate: "
        "pip install torch 'transformers>=4.56' safetensors gguf accelerate\n",
    )
    assert run(out, "--text", text)[1].startswith(f"export_kv: error: cannot read the text {text}: ")
    text.write_bytes(b"\xff\xfe\x00")
    assert run(out, "--text", text)[1].startswith(f"export_kv: error: cannot read the text {text}: ")
    text.write_text(" \n")
    assert run(out, "--text", text) == (
        2,
        f"export_kv: error: {text} is empty; give a text of some hundred words\n",
    )
    assert "its folder does not exist" in run(tmp_path / "nowhere" / "kv.safetensors")[1]
    assert list(tmp_path.iterdir()) == [text]


# Real models of transformers, with random weights.
SMALL = {
    "vocab_size": 97,
    "hidden_size": 96,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


def tiny(kind: str, **more: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **SMALL | more)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="recorded").eval()


def captured(kind: str, **more: Any) -> list[export_kv.Layer]:
    pytest.importorskip("transformers", reason="transformers is not installed")
    inputs = export_kv.register()
    return export_kv.capture(tiny(kind, **more), torch.arange(50)[None], inputs)


@pytest.mark.parametrize("kind", ["llama", "qwen3", "mistral"])
def test_what_a_model_computed_is_captured(kind: str, tmp_path: Path) -> None:
    layers = captured(kind, **{"sliding_window": 4096} if kind == "mistral" else {})
    assert [tuple(layer.q.shape) for layer in layers] == [(50, 6, 16)] * 3
    assert {layer.scale for layer in layers} == {0.25}
    export_kv.check(layers)
    safetensors = pytest.importorskip("safetensors", reason="safetensors is not installed")
    export_kv.save(tmp_path / "kv.safetensors", layers, "tiny")
    with safetensors.safe_open(tmp_path / "kv.safetensors", "pt") as stream:
        assert stream.metadata() == {
            "model": "tiny",
            "layers": "3",
            "tokens": "50",
            "scale": "0.25",
            "dtype": "float32",
        }
        assert torch.equal(stream.get_tensor("layers.2.v"), layers[2].v)
    assert [path.name for path in tmp_path.iterdir()] == ["kv.safetensors"]


def test_what_plain_attention_cannot_explain_is_refused() -> None:
    with pytest.raises(export_kv.Differs, match="a window that is shorter than the text"):
        export_kv.check(captured("mistral", sliding_window=8))
    with pytest.raises(export_kv.Problem, match="this model's attention has softcap"):
        captured("gemma2", attn_logit_softcapping=50.0)
    with pytest.raises(export_kv.Problem, match="0 an output projection named o_proj"):
        captured("gpt2", n_embd=96, n_layer=3, n_head=6)


def test_nothing_is_written_when_the_check_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(name: str) -> tuple[Any, Any]:
        return lambda text, return_tensors: SimpleNamespace(input_ids=torch.arange(50)[None]), tiny(
            "mistral", sliding_window=window
        )

    monkeypatch.setattr(export_kv, "load", load)
    window, out = 8, tmp_path / "kv.safetensors"
    pytest.importorskip("transformers", reason="transformers is not installed")
    assert export_kv.main([str(out), "--model", "tiny"]) == 1
    assert capsys.readouterr().err.startswith("export_kv: error: layer 0: plain causal attention")
    assert list(tmp_path.iterdir()) == []
    window = 50
    assert export_kv.main([str(out), "--model", "tiny"]) == 0
    assert (
        "3 layers, 50 tokens, 6/2 heads of 16; attention over them is the model's own to"
        in capsys.readouterr().out
    )
