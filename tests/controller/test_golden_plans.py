"""Whole plans, as files that a person reads: `golden/CASE/in.yaml` is asked, `golden/CASE/plan.yaml` comes.

`TRAINYARD_WRITE_GOLDEN=1 pytest tests/controller/test_golden_plans.py` writes the second anew; read the diff.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.controller.api.documents import read_text
from trainyard.controller.api.load import load_runtime, load_train_job
from trainyard.controller.plan import Features, Plan, plan
from trainyard.controller.runtimes import find_runtime, shipped_runtimes

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(folder.name for folder in GOLDEN.iterdir())
FEATURES = {
    "status-server": Features(
        train_job_status=True,
        status_server_url="https://trainyard.trainyard-system.svc:10443",
        status_server_ca="-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    )
}


class Readable(yaml.SafeDumper):
    """Writes long texts as blocks and values in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Readable.add_representer(str, write_text)


def planned(case: str) -> Plan:
    documents = read_text((GOLDEN / case / "in.yaml").read_text(), "in.yaml")
    (train_job,) = map(load_train_job, documents.train_jobs)
    runtime = find_runtime(train_job, from_stream=map(load_runtime, documents.runtimes))
    return plan(train_job, runtime, features=FEATURES.get(case))


@pytest.mark.parametrize("case", CASES)
def test_plan_is_the_expected_one(case: str) -> None:
    expected_file = GOLDEN / case / "plan.yaml"
    objects = list(planned(case).objects)
    if os.environ.get("TRAINYARD_WRITE_GOLDEN"):
        expected_file.write_text(yaml.dump_all(objects, Dumper=Readable, sort_keys=False, width=1000))
    expected = list(yaml.safe_load_all(expected_file.read_text()))
    assert objects == expected
    assert json.dumps(objects) == json.dumps(expected), "the order of keys differs"


@pytest.mark.parametrize("case", CASES)
def test_equal_input_gives_equal_bytes(case: str) -> None:
    assert json.dumps(planned(case).objects) == json.dumps(planned(case).objects)


def test_every_shipped_runtime_has_a_case_of_its_name() -> None:
    assert set(shipped_runtimes()) <= set(CASES)
