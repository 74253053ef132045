"""The decoder computes what transformers computes, before and after training, from adapter/ and from merged/."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.trainer,
    # What transformers and peft do when they load a model is not ours to mend.
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning"),
]

TOLERANCE = 1e-4
MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-tied": {"tie_word_embeddings": True},
    "llama-rope3": {"rope_parameters": "LLAMA3_ROPE", "tie_word_embeddings": True},
    "llama-linear-rope": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
    "llama-biases": {"attention_bias": True, "mlp_bias": True},
    "llama-head-dim": {"head_dim": 16},
    "qwen2": {"family": "qwen2"},
    "qwen2-tied": {"family": "qwen2", "tie_word_embeddings": True},
}
EVERY = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory, write_model: Callable[..., Path]) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = write_model(tmp_path_factory.mktemp(name), **MODELS[name])
        return made[name]

    return make


def sample(vocab_size: int) -> Any:
    import torch

    return torch.randint(0, vocab_size, (2, 70), generator=torch.Generator().manual_seed(3))


def theirs(folder: Path, adapter: Path | None = None) -> Any:
    """Compute transformers' logits, with an adapter by peft."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if adapter is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        return model.eval()(sample(model.config.vocab_size)).logits


def ours(folder: Path, *, quantise: bool = False, **adapter: Any) -> tuple[Any, Any]:
    """Load a model directory, with an adapter of random values if one is described; gives model and logits."""
    import torch

    from trainyard.trainers.torchtune import decoder, lora, weights
    from trainyard.trainers.torchtune.model_directory import read_shape

    cpu = torch.device("cpu")
    shape = read_shape(folder)
    described = lora.Lora(rank=4, alpha=8, dropout=0.0, **adapter) if adapter else None
    model = decoder.build(shape, max_seq_len=80, lora=described, device=cpu)
    weights.load(model, shape, folder, device=cpu, dtype=torch.float32, quantise=quantise)
    if described is not None:
        generator = torch.Generator().manual_seed(5)
        for parameter in lora.initialise(model, cpu, seed=0):
            parameter.data += torch.randn(parameter.shape, generator=generator) * 0.1
    model.eval()
    with torch.no_grad():
        return model, model(sample(shape.vocab_size))


@pytest.mark.parametrize("name", MODELS)
def test_the_base_model_computes_what_transformers_computes(name: str, model_of: Callable[[str], Path]) -> None:
    folder = model_of(name)
    assert (ours(folder)[1] - theirs(folder)).abs().max() < TOLERANCE


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "adapter",
    [
        pytest.param({"targets": ("q_proj", "v_proj", "o_proj")}, id="lora-attention"),
        pytest.param({"targets": EVERY}, id="lora-every"),
        pytest.param({"targets": EVERY, "use_rslora": True}, id="rslora"),
        pytest.param({"targets": EVERY, "use_dora": True}, id="dora"),
    ],
)
def test_adapter_and_merged_model_compute_what_was_trained(
    name: str, adapter: dict[str, Any], model_of: Callable[[str], Path], tmp_path: Path
) -> None:
    from trainyard.trainers.torchtune import output
    from trainyard.trainers.torchtune.config import ModelConfig
    from trainyard.trainers.torchtune.model_directory import read_shape

    folder = model_of(name)
    model, logits = ours(folder, **adapter)
    settings = ModelConfig(
        lora_rank=4,
        lora_alpha=8,
        target_modules=adapter["targets"],
        use_rslora=adapter.get("use_rslora", False),
        use_dora=adapter.get("use_dora", False),
    )
    output.save_adapter(model, settings, folder, tmp_path / "adapter")
    output.save_merged(model, read_shape(folder), folder, tmp_path / "merged")
    assert (logits - theirs(folder)).abs().max() > 0.1  # The adapter does something.
    assert (logits - theirs(folder, tmp_path / "adapter")).abs().max() < TOLERANCE
    assert (logits - theirs(tmp_path / "merged")).abs().max() < TOLERANCE
    assert (logits - ours(folder, **adapter)[1]).abs().max() == 0  # Saving changed nothing (torchtune's T4).
    assert not (tmp_path / "merged" / "adapter_config.json").exists()  # Nor is it applied twice (T5).


@pytest.mark.parametrize("use_dora", [False, True], ids=["qlora", "qdora"])
def test_the_merged_model_of_qlora_is_the_quantised_one_with_the_adapter(
    use_dora: bool, wide_llama: Path, tmp_path: Path
) -> None:
    from trainyard.trainers.torchtune import output
    from trainyard.trainers.torchtune.model_directory import read_shape

    model, logits = ours(wide_llama, quantise=True, targets=("q_proj", "up_proj"), use_dora=use_dora)
    output.save_merged(model, read_shape(wide_llama), wide_llama, tmp_path / "merged")
    assert (logits - theirs(tmp_path / "merged")).abs().max() < TOLERANCE
    unquantised = ours(wide_llama, targets=("q_proj", "up_proj"), use_dora=use_dora)[1]
    assert (logits - unquantised).abs().max() > 0.1


def test_an_adapter_of_the_output_projection_works(model_of: Callable[[str], Path], tmp_path: Path) -> None:
    from trainyard.trainers.torchtune import output
    from trainyard.trainers.torchtune.config import ModelConfig

    folder = model_of("llama")
    model, logits = ours(folder, targets=("q_proj", "lm_head"))
    settings = ModelConfig(lora_rank=4, lora_alpha=8, target_modules=("q_proj", "lm_head"))
    output.save_adapter(model, settings, folder, tmp_path / "adapter")
    assert (logits - theirs(folder, tmp_path / "adapter")).abs().max() < TOLERANCE


@pytest.mark.parametrize("sharded", [False, True], ids=["single", "sharded"])
@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_weights_are_read_from_every_layout(
    kind: str, sharded: bool, model_of: Callable[[str], Path], tmp_path: Path
) -> None:
    import json
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    source = model_of("llama")
    tensors = load_file(source / "model.safetensors")
    shutil.copyfile(source / "config.json", tmp_path / "config.json")
    stem = "model" if kind == "safetensors" else "pytorch_model"
    names = sorted(tensors)
    shards = [names[:5], names[5:]] if sharded else [names]
    weight_map = {}
    for number, shard in enumerate(shards, start=1):
        file = f"{stem}-{number:05d}-of-{len(shards):05d}.{kind}" if sharded else f"{stem}.{kind}"
        part = {name: tensors[name] for name in shard}
        save_file(part, tmp_path / file) if kind == "safetensors" else torch.save(part, tmp_path / file)
        weight_map.update(dict.fromkeys(shard, file))
    if sharded:
        (tmp_path / f"{stem}.{kind}.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert (ours(tmp_path)[1] - ours(source)[1]).abs().max() == 0


def test_a_large_model_is_written_in_shards_that_transformers_loads(
    model_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainyard.trainers.torchtune import output, weights
    from trainyard.trainers.torchtune.model_directory import read_shape

    monkeypatch.setattr(weights, "MAX_SHARD_BYTES", 30_000)
    folder = model_of("qwen2")
    output.save_merged(ours(folder)[0], read_shape(folder), folder, tmp_path / "merged")
    assert len(list((tmp_path / "merged").glob("model-*-of-*.safetensors"))) > 2
    assert (theirs(tmp_path / "merged") - theirs(folder)).abs().max() == 0


def test_the_blocks_are_those_of_a_plain_import_of_torchtune() -> None:
    import subprocess
    import sys

    program = (
        "from trainyard.trainers.torchtune import components\n"
        "import sys\n"
        "assert 'torchtune' not in sys.modules and 'torchao' not in sys.modules and 'datasets' not in sys.modules\n"
        "import torchtune\n"
        "import torchtune.modules.peft\n"
        "from torchtune.models.llama3_2 import llama3_2\n"
        "assert torchtune.modules.TransformerDecoder is components.TransformerDecoder\n"
        "assert torchtune.modules.peft.LoRALinear is components.LoRALinear\n"
        "llama3_2(vocab_size=8, num_layers=1, num_heads=2, num_kv_heads=1, embed_dim=8, max_seq_len=8)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_blocks_prints_nothing() -> None:
    import subprocess
    import sys

    program = "from trainyard.trainers.torchtune import recipe"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
