"""Low-rank adapters: which layers get one, the layer itself, and the way back into plain weights.

Source: LoRA, https://arxiv.org/abs/2106.09685; rank-stabilised scaling, https://arxiv.org/abs/2312.03732.
Target names are PEFT's (q_proj ... down_proj, lm_head).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainyard.trainers.torchtune.components import LoRALinear

ATTENTION_TARGETS: Final = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP_TARGETS: Final = ("gate_proj", "up_proj", "down_proj")
OUTPUT_TARGET: Final = "lm_head"
TARGETS: Final = (*ATTENTION_TARGETS, *MLP_TARGETS, OUTPUT_TARGET)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lora:
    """What an adapter looks like."""

    rank: int
    alpha: float
    dropout: float
    """Probability with which an element of the adapter's input is dropped in training."""
    targets: tuple[str, ...]
    """The linear layers that get an adapter, in the order of `TARGETS`."""
    use_rslora: bool
    """Scale by alpha / sqrt(rank) instead of alpha / rank."""

    @property
    def scale(self) -> float:
        """Give the factor of the low-rank product."""
        return self.alpha / (math.sqrt(self.rank) if self.use_rslora else self.rank)


class AdaptedLinear(LoRALinear):
    """torchtune's LoRA layer, y = x W' + b + scale (x A') B', with a forward that makes one pass over y, not three.

    A and B stay in float32 whatever the base's dtype (an update of 1e-4 of a weight is lost in bfloat16), and are cast
    to that of x to compute.
    """

    def __init__(self, in_dim: int, out_dim: int, lora: Lora, *, bias: bool) -> None:
        super().__init__(in_dim, out_dim, lora.rank, lora.alpha, lora.dropout, use_bias=bias)
        self.scale = lora.scale

    def forward(self, x: Tensor) -> Tensor:
        """Compute x: [..., in_dim] -> [..., out_dim]."""
        rows = x.reshape(-1, self.in_dim)
        out = functional.linear(rows, self.weight, self.bias)
        low = functional.linear(self.dropout(rows), self.lora_a.weight.to(x.dtype))
        out.addmm_(low, self.lora_b.weight.to(x.dtype).t(), alpha=self.scale)
        return out.view(*x.shape[:-1], self.out_dim)

    def merged_weight(self) -> Tensor:
        """Compute the plain weight that does the same, float32; the layer itself stays as it is."""
        with torch.no_grad():
            delta = self.lora_b.weight.float() @ self.lora_a.weight.float()
            return self.weight.float() + self.scale * delta


def adapted_layers(model: nn.Module) -> Iterator[tuple[str, AdaptedLinear]]:
    """Give every layer with an adapter and its name in the decoder."""
    for name, module in model.named_modules():
        if isinstance(module, AdaptedLinear):
            yield name, module


def initialise(model: nn.Module, device: torch.device, seed: int) -> list[nn.Parameter]:
    """Give the adapters their first values (A as in LoRA's own code, B zero) and freeze all else.

    Returns the adapters' parameters in the order of the decoder. Equal seeds give equal values on every device.
    """
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    parameters: list[nn.Parameter] = []
    for _, layer in adapted_layers(model):
        bound = 1.0 / math.sqrt(layer.in_dim)
        first = torch.empty(layer.rank, layer.in_dim).uniform_(-bound, bound, generator=generator)
        layer.lora_a.weight = nn.Parameter(first.to(device))
        layer.lora_b.weight = nn.Parameter(torch.zeros(layer.out_dim, layer.rank, device=device))
        parameters += [layer.lora_a.weight, layer.lora_b.weight]
    return parameters
