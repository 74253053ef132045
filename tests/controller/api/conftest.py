"""Readers of YAML texts: to typed objects, and to what is refused about them."""

from collections.abc import Callable

import pytest

from trainyard.controller.api.documents import read_text
from trainyard.controller.api.load import load_runtime, load_train_job
from trainyard.controller.api.loaded import Loaded
from trainyard.controller.api.problem import InvalidError


def load_all(text: str) -> list[Loaded]:
    return [
        load_train_job(document) if document.kind == "TrainJob" else load_runtime(document)
        for document in read_text(text, "job.yaml").all
    ]


@pytest.fixture
def load() -> Callable[[str], Loaded]:
    """Load the one object of a text."""

    def one(text: str) -> Loaded:
        (loaded,) = load_all(text)
        return loaded

    return one


@pytest.fixture
def refusals() -> Callable[[str], list[str]]:
    """Give the problems of a text as people see them; empty when it is accepted."""

    def problems(text: str) -> list[str]:
        try:
            load_all(text)
        except InvalidError as error:
            return str(error).splitlines()
        return []

    return problems
