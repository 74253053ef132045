"""From a model's shape to a decoder of torchtune's blocks, without values (`weights.load` brings them).

The decoder's parameter names are torchtune's; `hugging_face_name` maps each to transformers' name.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainyard.trainers.torchtune.components import (
    FeedForward,
    MultiHeadAttention,
    RMSNorm,
    TiedLinear,
    TransformerDecoder,
    TransformerSelfAttentionLayer,
)
from trainyard.trainers.torchtune.lora import AdaptedLinear, DoraLinear, Lora
from trainyard.trainers.torchtune.model_directory import ModelShape
from trainyard.trainers.torchtune.rotary import RotaryEmbedding

_IN_LAYER: Final = {
    "attn.q_proj": "self_attn.q_proj",
    "attn.k_proj": "self_attn.k_proj",
    "attn.v_proj": "self_attn.v_proj",
    "attn.output_proj": "self_attn.o_proj",
    "mlp.w1": "mlp.gate_proj",
    "mlp.w2": "mlp.down_proj",
    "mlp.w3": "mlp.up_proj",
    "sa_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
}
_OUTSIDE: Final = {"tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}


class Norm(RMSNorm):
    """torchtune's RMSNorm, computed in one kernel in every dtype: it sums up in float32 whatever its input is.

    torchtune's own forward hands over float32 values and a bfloat16 scale, for which there is no kernel.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x: [..., dim]."""
        return functional.rms_norm(x, self.normalized_shape, self.scale, self.eps)


def hugging_face_name(name: str) -> str:
    """Translate the name of a module or parameter of the decoder: `layers.0.attn.output_proj.weight`."""
    stem, dot, last = name.rpartition(".")
    if last in ("weight", "bias", "scale"):
        return f"{hugging_face_name(stem)}{dot}{'weight' if last == 'scale' else last}"
    if name in _OUTSIDE:
        return _OUTSIDE[name]
    found = re.fullmatch(r"layers\.(\d+)\.(.+)", name)
    if found is None or found[2] not in _IN_LAYER:
        raise KeyError(name)
    return f"model.layers.{found[1]}.{_IN_LAYER[found[2]]}"


def build(shape: ModelShape, *, max_seq_len: int, lora: Lora | None, device: torch.device) -> Any:
    """Build the decoder on torch's meta device: no memory, no values, but for the rotary angles on `device`.

    `max_seq_len` is the longest sequence that it will see, tokens.
    """
    rotary = RotaryEmbedding(shape, max_seq_len).to(device)
    with torch.device("meta"):
        layers = nn.ModuleList(_layer(shape, rotary, max_seq_len, lora) for _ in range(shape.num_layers))
        embeddings = nn.Embedding(shape.vocab_size, shape.embed_dim)
        if shape.tied_embeddings:
            output: Any = TiedLinear(embeddings)
        else:
            output = _linear(lora, "lm_head", shape.embed_dim, shape.vocab_size, bias=False)
        return TransformerDecoder(
            tok_embeddings=embeddings,
            layers=layers,
            max_seq_len=max_seq_len,
            num_heads=shape.num_heads,
            head_dim=shape.head_dim,
            norm=Norm(shape.embed_dim, eps=shape.norm_eps),
            output=output,
        )


def _layer(shape: ModelShape, rotary: RotaryEmbedding, max_seq_len: int, lora: Lora | None) -> Any:
    dim, q_dim, kv_dim = shape.embed_dim, shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    attention = MultiHeadAttention(
        # Only checked against num_heads, never used to compute; with its own head_dim a model need not divide here.
        embed_dim=q_dim,
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        q_proj=_linear(lora, "q_proj", dim, q_dim, bias=shape.qkv_bias),
        k_proj=_linear(lora, "k_proj", dim, kv_dim, bias=shape.qkv_bias),
        v_proj=_linear(lora, "v_proj", dim, kv_dim, bias=shape.qkv_bias),
        output_proj=_linear(lora, "o_proj", q_dim, dim, bias=shape.output_bias),
        pos_embeddings=rotary,
        max_seq_len=max_seq_len,
    )
    mlp = FeedForward(
        gate_proj=_linear(lora, "gate_proj", dim, shape.intermediate_dim, bias=shape.mlp_bias),
        down_proj=_linear(lora, "down_proj", shape.intermediate_dim, dim, bias=shape.mlp_bias),
        up_proj=_linear(lora, "up_proj", dim, shape.intermediate_dim, bias=shape.mlp_bias),
    )
    return TransformerSelfAttentionLayer(
        attn=attention,
        mlp=mlp,
        sa_norm=Norm(dim, eps=shape.norm_eps),
        mlp_norm=Norm(dim, eps=shape.norm_eps),
    )


def _linear(lora: Lora | None, target: str, in_dim: int, out_dim: int, *, bias: bool) -> nn.Module:
    if lora is not None and target in lora.targets:
        return (DoraLinear if lora.use_dora else AdaptedLinear)(in_dim, out_dim, lora, bias=bias)
    return nn.Linear(in_dim, out_dim, bias=bias)


def is_quantisable(name: str) -> bool:
    """Say whether QLoRA keeps a parameter of the decoder in 4 bits: the matrices of attention and MLP."""
    return name.startswith("layers.") and name.endswith(("proj.weight", "w1.weight", "w2.weight", "w3.weight"))


def loss_sum(
    model: Any, tokens: Tensor, asked: Tensor, targets: Tensor, *, run_layer: Callable[..., Tensor] | None = None
) -> Tensor:
    """Sum the cross-entropy of the targets; scalar, float32.

    `tokens`: [batch, seq], padded on the right, which the causal mask alone keeps out of sight. `asked`: [targets],
    positions in the flattened tokens from which to predict; only these reach the output projection, the widest layer
    of all. `targets`: [targets]. `run_layer(layer, hidden)` may wrap a layer (activation checkpointing).
    """
    hidden = model.tok_embeddings(tokens)
    for layer in model.layers:
        hidden = layer(hidden) if run_layer is None else run_layer(layer, hidden)
    wanted = model.norm(hidden.flatten(0, 1).index_select(0, asked))
    return functional.cross_entropy(model.output(wanted).float(), targets, reduction="sum")
