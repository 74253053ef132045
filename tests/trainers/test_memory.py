"""The estimate of memory, and what is said when it does not suffice."""

import dataclasses

import pytest

from trainyard.contract.errors import OutOfMemoryError

pytestmark = pytest.mark.trainer


def test_an_allocation_that_fails_is_typed_and_says_what_to_lower() -> None:
    import torch

    from trainyard.trainers.torchtune import memory
    from trainyard.trainers.torchtune.config import Config

    with pytest.raises(OutOfMemoryError, match="lower batch_size \\(now 4\\)"), memory.typed(Config(method="full")):
        torch.empty(1 << 60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="another fault"), memory.typed(Config(method="full")):
        raise RuntimeError("another fault")


def test_the_estimate_is_near_the_real_peak() -> None:
    """Measured in a process of its own: peak resident size over what an idle torch takes."""
    import subprocess
    import sys

    program = """
import resource, torch
from trainyard.trainers.torchtune import decoder, lora, memory
from trainyard.trainers.torchtune.config import Config, ModelConfig
from trainyard.trainers.torchtune.model_directory import ModelShape
from trainyard.trainers.torchtune.optimisation import Optimisation
from trainyard.trainers.torchtune.process_group import ProcessGroup

torch.set_num_threads(1)
torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], fused=True)
idle = int(open("/proc/self/statm").read().split()[1]) * 4096
shape = ModelShape(family="llama", vocab_size=4096, num_layers=6, num_heads=8, num_kv_heads=4, embed_dim=512,
    head_dim=64, intermediate_dim=1408, max_position_embeddings=256, norm_eps=1e-5, rope_theta=1e4,
    tied_embeddings=False, qkv_bias=False, output_bias=False, mlp_bias=False, dtype="float32")
config = Config(method="lora", model=ModelConfig(), batch_size=8)
adapter = lora.Lora(rank=8, alpha=16, dropout=0.0, targets=config.model.target_modules)
model = decoder.build(shape, max_seq_len=256, lora=adapter, device=torch.device("cpu"))
values = {name: torch.full(p.shape, 0.01) for name, p in model.named_parameters() if "lora" not in name}
model.load_state_dict(values, strict=False, assign=True)
optimisation = Optimisation(lora.initialise(model, torch.device("cpu"), 0), config, ProcessGroup())
tokens = torch.randint(0, 4096, (8, 256))
optimisation.begin()
decoder.loss_sum(model, tokens, torch.arange(8 * 256), tokens.flatten()).backward()
optimisation.finish(1e-4, stop=False)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - idle
print(memory.estimate(config, shape, seq_len=256, dtype=torch.float32).total / peak)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 0.7 < float(done.stdout) < 1.3


def test_a_quantised_base_and_an_adapter_are_counted_as_what_they_take() -> None:
    import torch

    from trainyard.trainers.torchtune.config import Config, ModelConfig
    from trainyard.trainers.torchtune.memory import estimate
    from trainyard.trainers.torchtune.model_directory import ModelShape

    shape = ModelShape(
        family="llama",
        vocab_size=128256,
        num_layers=32,
        num_heads=32,
        num_kv_heads=8,
        embed_dim=4096,
        head_dim=128,
        intermediate_dim=14336,
        max_position_embeddings=8192,
        norm_eps=1e-5,
        rope_theta=500000.0,
        tied_embeddings=False,
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        dtype="bfloat16",
    )
    lora = Config(method="lora", model=ModelConfig())
    qlora = dataclasses.replace(lora, model=ModelConfig(quantize_base=True))
    full = Config(method="full")
    weights = {
        name: estimate(config, shape, seq_len=0, dtype=torch.bfloat16)
        for name, config in {"lora": lora, "qlora": qlora, "full": full}.items()
    }
    assert weights["lora"].weights == 2 * 8_030_261_248
    assert 5.0e9 < weights["qlora"].weights < 6.5e9
    assert weights["full"].total == 4 * weights["full"].weights
    assert weights["lora"].trained < 0.5e9
