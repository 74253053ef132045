"""The trainer against a bare torch loop: CPU seconds a token, same model, data, order, LoRA targets and threads.

    python benchmarks/trainer.py [--pairs 7] [--steps 40] [--rows chat|text] [--limit 1.05]

Each pair is two fresh processes, one after the other in random order: ours is the unchanged `tune run` command with
metrics, progress and picture on; the bare loop is the model in plain torch below, fused AdamW, nothing else. Counted
are the CPU seconds from the end of step 5 to the end of the last step, over the tokens of these steps: no imports, no
loading, no saving. Prints the ratio of each pair, their median and its 95 % interval (from the order statistics);
exits 1 when the whole interval lies above the limit.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WARM_STEPS = 5
BATCH = 4
SEQ = 256
RANK, ALPHA = 8, 16
LR = 3e-4
SHAPE = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 0,
    "eos_token_id": 1,
}
TARGETS = ("q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def make_inputs(folder: Path, steps: int, rows: str) -> None:
    """Write the model directory and the data: words of one token each, rows of 3/4 to 1 of SEQ tokens."""
    import torch
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    generator = torch.Generator().manual_seed(0)
    dim, ffn, heads, kv = (SHAPE[name] for name in ("hidden_size", "intermediate_size", "num_attention_heads",
                                                     "num_key_value_heads"))  # fmt: skip
    shapes = {
        "model.embed_tokens": (SHAPE["vocab_size"], dim),
        "lm_head": (SHAPE["vocab_size"], dim),
        "model.norm": (dim,),
    }
    for layer in range(SHAPE["num_hidden_layers"]):
        for name, shape in {
            "self_attn.q_proj": (dim, dim),
            "self_attn.k_proj": (dim * kv // heads, dim),
            "self_attn.v_proj": (dim * kv // heads, dim),
            "self_attn.o_proj": (dim, dim),
            "mlp.gate_proj": (ffn, dim),
            "mlp.up_proj": (ffn, dim),
            "mlp.down_proj": (dim, ffn),
            "input_layernorm": (dim,),
            "post_attention_layernorm": (dim,),
        }.items():
            shapes[f"model.layers.{layer}.{name}"] = shape
    tensors = {
        f"{name}.weight": torch.ones(shape) if len(shape) == 1 else torch.randn(shape, generator=generator) * 0.02
        for name, shape in shapes.items()
    }
    model = folder / "model"
    model.mkdir()
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    (model / "config.json").write_text(json.dumps(SHAPE))
    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2} | {f"w{number}": number for number in range(3, SHAPE["vocab_size"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.save(str(model / "tokenizer.json"))
    (model / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))

    choose = random.Random(0)
    (folder / "data").mkdir()
    with (folder / "data" / "train.jsonl").open("w") as file:
        for _ in range(steps * BATCH):
            length = choose.randint(SEQ * 3 // 4, SEQ) - 2
            words = [f"w{choose.randrange(3, SHAPE['vocab_size'])}" for _ in range(length)]
            asked = 1 if rows == "text" else length // 3
            row = {"prompt": " ".join(words[:asked]), "completion": " ".join(words[asked:])}
            file.write(json.dumps(row) + "\n")


def ours(folder: Path, rows: str, seed: int) -> tuple[float, int]:
    """Train with `tune run`; gives CPU seconds and tokens after the warm steps, from its own metrics."""
    output = folder / f"output-{seed}"
    command = [
        sys.executable, "-m", "trainyard.entrypoints.tune", "run", "lora_finetune_single_device", "--config", "auto",
        f"checkpointer.checkpoint_dir={folder / 'model'}", f"dataset.data_dir={folder / 'data'}",
        f"output_dir={output}",
        f"dataset.train_on_input={rows == 'text'}", f"batch_size={BATCH}", f"optimizer.lr={LR}", "dtype=fp32",
        f"model.lora_rank={RANK}", f"model.lora_alpha={ALPHA}", "lr_scheduler.name=constant", "shuffle=False",
        "device=cpu",
    ]  # fmt: skip
    done = subprocess.run(command, env=environment(), stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"tune run ended with {done.returncode}:\n{done.stderr}")
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return (
        lines[-1]["cpu_seconds"] - lines[WARM_STEPS - 1]["cpu_seconds"],
        sum(line["tokens"] for line in lines[WARM_STEPS:]),
    )


def bare(folder: Path, rows: str) -> tuple[float, int]:
    """Train with the loop below, in a process of its own."""
    command = [sys.executable, __file__, "--bare", str(folder), "--rows", rows]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    seconds, tokens = json.loads(done.stdout)
    return seconds, tokens


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def run_bare(folder: Path, rows: str) -> None:
    """The bare loop: plain torch, nothing of ours, nothing of torchtune's."""
    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(0)
    weights = load_file(folder / "model" / "model.safetensors")
    heads, kv_heads = SHAPE["num_attention_heads"], SHAPE["num_key_value_heads"]
    head_dim = SHAPE["hidden_size"] // heads
    angles = torch.outer(torch.arange(SEQ + 1.0), 1.0 / 10000.0 ** (torch.arange(0, head_dim, 2) / head_dim))
    cos, sin = angles.cos(), angles.sin()
    adapters: dict[str, tuple[nn.Parameter, nn.Parameter]] = {}
    for name, weight in weights.items():
        if name.split(".")[-2] in TARGETS:
            low = nn.Parameter(torch.empty(RANK, weight.shape[1]))
            nn.init.kaiming_uniform_(low, a=math.sqrt(5))
            adapters[name] = (low, nn.Parameter(torch.zeros(weight.shape[0], RANK)))

    def linear(name: str, x: Any) -> Any:
        out = functional.linear(x, weights[name])
        if name in adapters:
            low, high = adapters[name]
            out = out + functional.linear(functional.linear(x, low), high) * (ALPHA / RANK)
        return out

    def norm(name: str, x: Any) -> Any:
        return functional.rms_norm(x, (SHAPE["hidden_size"],), weights[name], SHAPE["rms_norm_eps"])

    def rotate(x: Any) -> Any:  # [batch, heads, seq, head_dim]
        low, high = x.chunk(2, dim=-1)
        c, s = cos[: x.shape[2]], sin[: x.shape[2]]
        return torch.cat((low * c - high * s, high * c + low * s), dim=-1)

    def forward(tokens: Any) -> Any:
        batch, length = tokens.shape
        hidden = functional.embedding(tokens, weights["model.embed_tokens.weight"])
        for layer in range(SHAPE["num_hidden_layers"]):
            stem = f"model.layers.{layer}"
            x = norm(f"{stem}.input_layernorm.weight", hidden)
            q, k, v = (
                linear(f"{stem}.self_attn.{name}_proj.weight", x).view(batch, length, count, head_dim).transpose(1, 2)
                for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
            )
            mixed = functional.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
            mixed = mixed.transpose(1, 2).reshape(batch, length, -1)
            hidden = hidden + linear(f"{stem}.self_attn.o_proj.weight", mixed)
            x = norm(f"{stem}.post_attention_layernorm.weight", hidden)
            gate = functional.silu(linear(f"{stem}.mlp.gate_proj.weight", x))
            hidden = hidden + linear(f"{stem}.mlp.down_proj.weight", gate * linear(f"{stem}.mlp.up_proj.weight", x))
        return functional.linear(norm("model.norm.weight", hidden), weights["lm_head.weight"])

    tokenizer = Tokenizer.from_file(str(folder / "model" / "tokenizer.json"))
    examples = []
    for line in (folder / "data" / "train.jsonl").read_text().splitlines():
        row = json.loads(line)
        prompt = tokenizer.encode(row["prompt"]).ids
        ids = [*prompt, *tokenizer.encode(row["completion"], add_special_tokens=False).ids, 1]
        examples.append((ids, 1 if rows == "text" else len(prompt)))
    optimizer = torch.optim.AdamW([part for pair in adapters.values() for part in pair], lr=LR, fused=True)
    began, counted = 0.0, 0
    for step, first in enumerate(range(0, len(examples), BATCH)):
        if step == WARM_STEPS:
            began, counted = time.process_time(), 0
        chosen = examples[first : first + BATCH]
        width = max(len(ids) for ids, _ in chosen)
        tokens = torch.full((len(chosen), width), 1)
        labels = torch.full((len(chosen), width), -100)
        for place, (ids, asked) in enumerate(chosen):
            tokens[place, : len(ids)] = torch.tensor(ids)
            labels[place, asked : len(ids)] = torch.tensor(ids[asked:])
        logits = forward(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        counted += sum(len(ids) for ids, _ in chosen)
    print(json.dumps([time.process_time() - began, counted]))


def median_interval(values: list[float]) -> tuple[float, float]:
    """Give the 95 % interval of the median: the widest-in order statistics whose binomial tails stay below 2.5 %."""
    ordered, count = sorted(values), len(values)
    skip, tail = 0, 0.5**count
    while tail + math.comb(count, skip + 1) * 0.5**count <= 0.025 and skip + 1 < count // 2:
        skip += 1
        tail += math.comb(count, skip) * 0.5**count
    return ordered[skip], ordered[count - 1 - skip]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=40)
    rows_help = "text: every token is a target; chat: a third is prompt, which the trainer does not project"
    parser.add_argument("--rows", choices=("text", "chat"), default="text", help=rows_help)
    parser.add_argument("--limit", type=float, default=1.05)
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.bare is not None:
        run_bare(chosen.bare, chosen.rows)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_inputs(folder, chosen.steps, chosen.rows)
        ratios = []
        order = random.Random(0)
        print(f"{'pair':>4} {'ours, us CPU a token':>21} {'bare loop':>10} {'ratio':>6}")
        for pair in range(chosen.pairs):
            first_ours = order.random() < 0.5
            results = {}
            for which in ("ours", "bare") if first_ours else ("bare", "ours"):
                seconds, tokens = ours(folder, chosen.rows, pair) if which == "ours" else bare(folder, chosen.rows)
                results[which] = 1e6 * seconds / tokens
            ratios.append(results["ours"] / results["bare"])
            print(f"{pair + 1:>4} {results['ours']:>21.1f} {results['bare']:>10.1f} {ratios[-1]:>6.3f}", flush=True)
    low, high = median_interval(ratios)
    middle = statistics.median(ratios)
    print(
        f"ratio median {middle:.3f}, 95 % interval {low:.3f} to {high:.3f}, limit {chosen.limit}, {len(ratios)} pairs"
    )
    sys.exit(1 if low > chosen.limit else 0)


if __name__ == "__main__":
    main()
