"""The little world of the example: people order things, in words; a shop wants them as records.

Everything is drawn from a seeded generator. The base model is pre-trained on messages followed by a clerk's notes; the
fine-tune teaches it to answer an instruction with JSON. Names, goods and cities of the held-out questions come from the
same lists, but no message of theirs occurs in the fine-tune's data.
"""

import json
import random
from dataclasses import dataclass

PEOPLE = (
    "Ada Alan Amara Anil Anna Bela Boris Carla Chen Clara Dana Diego Elena Emil Esther Farid Fatima Felix Gita Greta "
    "Hana Hugo Ida Ines Ivan Jana Jonas Kofi Lars Leila Linus Lucia Maja Marco Mei Mila Nadia Nils Noor Olga Omar "
    "Otto Pavel Petra Priya Quinn Rafael Rosa Samir Sofia Tariq Tessa Uma Viktor Wanda Yara Yusuf Zoe"
).split()
GOODS = (
    "mugs lamps chairs clocks kites bowls drums pens maps rugs scarves bells boots caps cups desks fans gloves hats "
    "jars keys knives masks nets pans plates pots ropes sacks shelves spoons stools tents towels trays vases"
).split()
COLOURS = "red blue green black white yellow grey brown pink orange".split()
CITIES = (
    "Accra Athens Bergen Berlin Bogota Cairo Cork Dakar Delhi Dublin Ghent Hanoi Kyoto Lagos Lima Lisbon London Lyon "
    "Madrid Milan Nairobi Oslo Paris Porto Prague Quito Riga Rome Seoul Sofia Split Tallinn Tunis Turin Vienna Warsaw"
).split()
INSTRUCTION = "Write this order as JSON."
MESSAGES = (
    "Hello, this is {who} from {city}. Please send me {count} {colour} {what}.",
    "{who} here. I would like {count} {colour} {what}, delivered to {city}.",
    "Could you ship {count} {what} in {colour} to {city}? Thanks, {who}",
    "To {city}, please: {count} {colour} {what}. The name is {who}.",
    "Good morning! {count} {colour} {what} for {who} in {city}, please.",
    "My name is {who} and I live in {city}. I need {count} {what}, all of them {colour}.",
)


@dataclass(frozen=True)
class Order:
    """One order and the words it came in."""

    who: str
    what: str
    colour: str
    city: str
    count: int
    message: str

    def fields(self) -> dict[str, str | int]:
        """Give the five facts of the order under the names that both notes and JSON use."""
        return {
            "name": self.who,
            "item": self.what,
            "colour": self.colour,
            "quantity": self.count,
            "city": self.city,
        }

    def notes(self, random_: random.Random | None = None) -> str:
        """Write what the base model has seen: the facts as a clerk jots them down, in a random order if asked."""
        facts = list(self.fields().items())
        if random_ is not None:
            random_.shuffle(facts)
        return "> " + "; ".join(f"{key} {value}" for key, value in facts)

    def record(self) -> str:
        """Write the JSON that the fine-tune teaches."""
        return json.dumps(self.fields())


def draw(random_: random.Random) -> Order:
    """Draw one order."""
    fields = {
        "who": random_.choice(PEOPLE),
        "what": random_.choice(GOODS),
        "colour": random_.choice(COLOURS),
        "city": random_.choice(CITIES),
        "count": random_.randint(2, 99),
    }
    return Order(message=random_.choice(MESSAGES).format(**fields), **fields)
