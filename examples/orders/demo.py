"""The demo: ask a small model, fine-tune it with `trainyard run`, ask again.

    make demo

Fails unless the accuracy on the 50 held-out questions rises by at least 50 points.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
JOB = "orders"
SHOWN = 4
LEAST_RISE_POINTS = 50
LONGEST_ANSWER_TOKENS = 80
TRAINYARD = str(Path(sys.executable).with_name("trainyard"))


def questions() -> list[dict[str, str]]:
    return [json.loads(line) for line in (HERE / "questions.jsonl").read_text().splitlines()]


def ask(adapter: Path | None) -> list[str]:
    """Answer every question with the base model, or with base and adapter, as users of transformers and peft do."""
    import logging

    # torchao, which peft imports, warns of C++ extensions that nothing here needs.
    logging.getLogger("torchao").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(HERE / "base-model")
    model = AutoModelForCausalLM.from_pretrained(HERE / "base-model", dtype=torch.float32)
    if adapter is not None:
        model = PeftModel.from_pretrained(model, adapter)
    model.eval()
    answers = []
    for question in questions():
        given = tokenizer(question["input"] + "\n", return_tensors="pt", return_token_type_ids=False)
        with torch.inference_mode():
            ids = model.generate(
                **given,
                max_new_tokens=LONGEST_ANSWER_TOKENS,
                do_sample=False,
                pad_token_id=tokenizer.eos_token_id,
            )
        answers.append(tokenizer.decode(ids[0, given["input_ids"].shape[1] :], skip_special_tokens=True).strip())
    return answers


def train() -> Path:
    """Run the TrainJob; give the folder with its output."""
    subprocess.run([TRAINYARD, "delete", JOB, "--yes"], check=False, capture_output=True)
    done = subprocess.run([TRAINYARD, "run", str(HERE / "train_job.yaml")], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    described = subprocess.run([TRAINYARD, "describe", JOB, "-o", "json"], check=True, capture_output=True, text=True)
    return Path(json.loads(described.stdout)["local"]["results"][0]["folder"])


def show(before: list[str], after: list[str]) -> None:
    """Print a few questions with both answers."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{SHOWN} of the {len(before)} held-out questions", show_lines=True)
    table.add_column("question")
    table.add_column("before")
    table.add_column("after")
    for question, old, new in list(zip(questions(), before, after, strict=True))[:SHOWN]:
        mark = "green" if new == question["output"] else "red"
        table.add_row(question["input"].split("\n")[1], old, f"[{mark}]{new}[/{mark}]")
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    expected = [question["output"] for question in questions()]
    print(f"Asking the base model {len(expected)} questions that the fine-tune will never see ...", flush=True)
    before = ask(None)
    started = time.monotonic()
    output = train()
    print(f"Staged and trained in {time.monotonic() - started:.0f} s. Asking the same questions again ...", flush=True)
    after = ask(output / "adapter")
    show(before, after)
    old, new = (
        round(100 * sum(a == e for a, e in zip(answers, expected, strict=True)) / len(expected))
        for answers in (before, after)
    )
    print(f"\nright answers: {old} % before, {new} % after the fine-tune")
    if new - old < LEAST_RISE_POINTS:
        sys.exit(f"demo failed: the accuracy rose by {new - old} points, expected at least {LEAST_RISE_POINTS}")
    print(f"""
adapter   {output / "adapter"}
metrics   {output / "metrics.jsonl"}
picture   {output / "loss.png"}

Try next, after `source .venv/bin/activate`:
  trainyard describe {JOB}                    what ran, where, how it ended
  trainyard logs {JOB}                        everything that was printed
  trainyard render examples/all-reduce.yaml  what a cluster would make of it
  trainyard run examples/all-reduce.yaml     four processes on two nodes
""")


if __name__ == "__main__":
    main()
