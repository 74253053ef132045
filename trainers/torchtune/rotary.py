"""Rotary position embeddings as transformers computes them (the two halves of a head turn against each other).

torchtune's own Llama rotary embedding pairs neighbouring elements instead and needs every query, key and adapter matrix
permuted on the way in and out; with this one the weights keep their Hugging Face order.
Source: RoFormer, https://arxiv.org/abs/2104.09864; Llama 3.1's scaling as in transformers' `modeling_rope_utils`.
"""

import math

import torch
from torch import Tensor, nn

from trainyard.trainers.torchtune.model_directory import ModelShape


def inverse_frequencies(shape: ModelShape) -> Tensor:
    """Compute a model's rotation per position: [head_dim / 2], float32, radians."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.int64).float() / shape.head_dim
    frequencies = 1.0 / (shape.rope_theta**exponents)
    scaling = shape.rope_scaling
    if scaling is None:
        return frequencies / shape.rope_linear_factor
    longest = scaling.original_max_position_embeddings / scaling.low_freq_factor
    shortest = scaling.original_max_position_embeddings / scaling.high_freq_factor
    wavelengths = 2 * math.pi / frequencies
    smooth = (scaling.original_max_position_embeddings / wavelengths - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    between = (1 - smooth) * frequencies / scaling.factor + smooth * frequencies
    scaled = torch.where(wavelengths > longest, frequencies / scaling.factor, between)
    return torch.where(wavelengths < shortest, frequencies, scaled)


class RotaryEmbedding(nn.Module):
    """Turns queries and keys by their positions; the angles of every position are computed once."""

    def __init__(self, shape: ModelShape, max_seq_len: int) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(max_seq_len).float(), inverse_frequencies(shape))
        # [position, 1, head_dim / 2], float32: cast per call, so that bf16 training turns by accurately computed
        # angles.
        self.register_buffer("cos", angles.cos()[:, None, :], persistent=False)
        self.register_buffer("sin", angles.sin()[:, None, :], persistent=False)

    def forward(self, x: Tensor, *, input_pos: Tensor | None = None) -> Tensor:
        """Turn x: [batch, seq, heads, head_dim]; positions are 0, 1, 2, ... where `input_pos` [batch, seq] is None."""
        index: slice | Tensor = slice(x.shape[1]) if input_pos is None else input_pos
        cos, sin = self.cos[index].to(x.dtype), self.sin[index].to(x.dtype)
        low, high = x.chunk(2, dim=-1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)
