"""Pre-train the example's base model from nothing: a Llama of 0.9 million parameters, in minutes on two cores.

    python examples/orders/make_base_model.py [FOLDER]

It reads orders in words followed by a clerk's notes, and notes followed by their JSON. So it knows what belongs to an
order and what JSON looks like; it has never seen an instruction, nor words turned into JSON. The folder is in
Hugging Face format: config.json, model.safetensors, tokenizer.json. It is part of the repository, so this script runs
only when somebody wants another one.
"""

import random
import sys
from pathlib import Path

import torch
from orders import draw
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HERE = Path(__file__).resolve().parent
SEED = 7
STEPS = 1400
BATCH_ROWS = 32
PEAK_LR = 3e-3
RECORDS = 0.3
"""Share of documents that turn notes into JSON."""
VOCABULARY = 1024
BEGIN, END = "<|begin_of_text|>", "<|end_of_text|>"
IGNORED = -100


def text(random_: random.Random) -> tuple[str, str]:
    """Draw one document as (what is given, what is learnt): a clerk's notes on a message, or a record of the notes."""
    order = draw(random_)
    if random_.random() < RECORDS:
        return order.notes(random_) + "\n", order.record()
    return order.message + "\n", order.notes()


def vocabulary_text(random_: random.Random) -> str:
    """Draw a text for the tokenizer, which is to know the signs of JSON as well."""
    order = draw(random_)
    return f"{order.message}\n{order.notes()}\n{order.record()}"


def make_tokenizer(random_: random.Random) -> Tokenizer:
    """Train a byte-level BPE in which digits stand alone."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((vocabulary_text(random_) for _ in range(3000)), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))]
    )
    return tokenizer


def batch(tokenizer: Tokenizer, random_: random.Random, whole: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a batch: ids and labels, both [rows, longest], int64; padding and what is not learnt are -100 in labels."""
    end = tokenizer.token_to_id(END)
    rows = []
    for _ in range(BATCH_ROWS):
        given, learnt = text(random_)
        head = tokenizer.encode(given).ids
        tail = [*tokenizer.encode(learnt, add_special_tokens=False).ids, end]
        labels = (head if whole else [IGNORED] * len(head)) + tail
        rows.append((head + tail, labels))
    longest = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([row + [end] * (longest - len(row)) for row, _ in rows])
    labels = torch.tensor([row + [IGNORED] * (longest - len(row)) for _, row in rows])
    return ids, labels


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "base-model"
    torch.manual_seed(SEED)
    # Two threads gain nothing on a model of this size, and one gives the same numbers everywhere.
    torch.set_num_threads(1)
    random_ = random.Random(SEED)
    tokenizer = make_tokenizer(random_)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.token_to_id(BEGIN),
            eos_token_id=tokenizer.token_to_id(END),
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LR, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 100) * max(0.05, 1 - step / STEPS)
    )
    for step in range(STEPS):
        # Every fourth batch also learns the message itself, the others only what follows from it.
        ids, labels = batch(tokenizer, random_, whole=step % 4 == 0)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 100 in (0, 1) or step == STEPS - 1:
            print(f"step={step}/{STEPS} loss={loss.item():.4f}", flush=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END).save_pretrained(folder)


if __name__ == "__main__":
    main()
