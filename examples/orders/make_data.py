"""Write the fine-tune's data and the held-out questions of the example, the same bytes every time.

    python examples/orders/make_data.py

`dataset/train.jsonl` has 600 rows {"input", "output"}; `questions.jsonl` has 50 more of the same kind that the
fine-tune never sees. No message occurs in both, so that a right answer shows a skill and not a memory.
"""

import json
import random
from pathlib import Path

from orders import INSTRUCTION, Order, draw

HERE = Path(__file__).resolve().parent
SEED = 20261121
ROWS = 600
QUESTIONS = 50


def row(order: Order) -> str:
    return json.dumps({"input": f"{INSTRUCTION}\n{order.message}", "output": order.record()}) + "\n"


def main() -> None:
    random_ = random.Random(SEED)
    orders: dict[str, Order] = {}
    while len(orders) < ROWS + QUESTIONS:
        order = draw(random_)
        orders.setdefault(order.message, order)
    lines = [row(order) for order in orders.values()]
    (HERE / "dataset").mkdir(exist_ok=True)
    (HERE / "dataset" / "train.jsonl").write_text("".join(lines[:ROWS]))
    (HERE / "questions.jsonl").write_text("".join(lines[ROWS:]))


if __name__ == "__main__":
    main()
