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
    use_rslora: bool = False
    """Scale by alpha / sqrt(rank) instead of alpha / rank."""
    use_dora: bool = False
    """Learn the magnitude of each output apart from its direction."""

    @property
    def scale(self) -> float:
        """Give the factor of the low-rank product."""
        return self.alpha / (math.sqrt(self.rank) if self.use_rslora else self.rank)


class AdaptedLinear(LoRALinear):
    """torchtune's LoRA layer, y = x W' + b + scale (x A') B', with a forward that makes one pass over y, not three.

    A and B stay in float32 whatever the base's dtype (an update of 1e-4 of a weight is lost in bfloat16), and are
    cast to that of x to compute. W may be an NF4 tensor (QLoRA): torch then dequantises it for each product.
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

    def trained(self) -> list[nn.Parameter]:
        """List the parameters of the adapter."""
        return [self.lora_a.weight, self.lora_b.weight]

    def initialise(self, device: torch.device, generator: torch.Generator) -> None:
        """Give the adapter its first values: A as in LoRA's own code, B zero, so that the layer computes as before."""
        bound = 1.0 / math.sqrt(self.in_dim)
        first = torch.empty(self.rank, self.in_dim).uniform_(-bound, bound, generator=generator)
        self.lora_a.weight = nn.Parameter(first.to(device))
        self.lora_b.weight = nn.Parameter(torch.zeros(self.out_dim, self.rank, device=device))

    @torch.no_grad()
    def merged_weight(self) -> Tensor:
        """Compute the plain weight that does the same, float32; the layer itself stays as it is."""
        return full_precision(self.weight) + self.scale * (self.lora_b.weight @ self.lora_a.weight)


class DoraLinear(AdaptedLinear):
    """y = (m / |V|) (x V') + b with V = W + scale B A and |V| the norm of each row, which is not differentiated.

    Source: DoRA, https://arxiv.org/abs/2402.09353, section 4.3. torchtune's own layer scales the bias as well; PEFT
    does not.
    """

    def __init__(self, in_dim: int, out_dim: int, lora: Lora, *, bias: bool) -> None:
        super().__init__(in_dim, out_dim, lora, bias=bias)
        self.magnitude = nn.Parameter(torch.empty(out_dim))

    def forward(self, x: Tensor) -> Tensor:
        """Compute x: [..., in_dim] -> [..., out_dim]."""
        rows = self.dropout(x.reshape(-1, self.in_dim))
        out = functional.linear(rows, self.weight)
        low = functional.linear(rows, self.lora_a.weight.to(x.dtype))
        out = out.addmm_(low, self.lora_b.weight.to(x.dtype).t(), alpha=self.scale)
        out = out * (self.magnitude / self._row_norms()).to(x.dtype)
        if self.bias is not None:
            out = out + self.bias
        return out.view(*x.shape[:-1], self.out_dim)

    def trained(self) -> list[nn.Parameter]:
        """List the parameters of the adapter."""
        return [*super().trained(), self.magnitude]

    def initialise(self, device: torch.device, generator: torch.Generator) -> None:
        """Give the adapter its first values; the magnitude is that of the base weight."""
        super().initialise(device, generator)
        self.magnitude = nn.Parameter(self._row_norms())

    @torch.no_grad()
    def merged_weight(self) -> Tensor:
        """Compute the plain weight that does the same, float32; the layer itself stays as it is."""
        return super().merged_weight() * (self.magnitude / self._row_norms())[:, None]

    @torch.no_grad()
    def _row_norms(self) -> Tensor:
        """Compute |V|: [out_dim], float32."""
        return torch.linalg.vector_norm(AdaptedLinear.merged_weight(self), dim=1)


def full_precision(weight: Tensor) -> Tensor:
    """Give a weight as float32, dequantised where it is NF4."""
    return weight.detach().to(torch.float32)


def adapted_layers(model: nn.Module) -> Iterator[tuple[str, AdaptedLinear]]:
    """Give every layer with an adapter and its name in the decoder."""
    for name, module in model.named_modules():
        if isinstance(module, AdaptedLinear):
            yield name, module


def initialise(model: nn.Module, device: torch.device, seed: int) -> list[nn.Parameter]:
    """Give the adapters their first values and freeze all else; the base weights must be loaded.

    Returns the adapters' parameters in the order of the decoder. Equal seeds give equal values on every device.
    """
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    parameters: list[nn.Parameter] = []
    for _, layer in adapted_layers(model):
        layer.initialise(device, generator)
        parameters += layer.trained()
    return parameters
