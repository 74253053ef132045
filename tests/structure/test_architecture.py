"""Imports point one way: the table of the README, checked on the syntax tree."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(
    {
        name.split(".")[1]
        for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    }
)

ALLOWED = {
    "contract": {"contract"},
    "storage": {"storage", "contract"},
    "initializers": {"initializers", "storage", "contract"},
    "trainers": {"trainers", "storage", "contract"},
    "controller": {"controller", "runtimes", "contract"},
    "runtimes": set(),
    "local": {"local", "controller", "contract"},
    "entrypoints": {"entrypoints", "initializers", "storage", "trainers", "local", "controller", "contract"},
}
CLUSTER_SIDE = ("trainyard.controller.kube", "trainyard.controller.reconcile", "trainyard.controller.webhooks")
CONTRACT_MAY_USE = {"trainyard"}


def modules(package: str) -> Iterator[tuple[str, Path]]:
    for file in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(("trainyard", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        yield name, file


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import"
            yield node.module or ""
            # `from trainyard import contract` names the package only here.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_arrows(package: str) -> None:
    wrong = [
        f"{name} imports {target}"
        for name, file in modules(package)
        for target in imports(file)
        if target.startswith("trainyard.") and target.split(".")[1] not in ALLOWED[package]
    ]
    assert wrong == []


def test_every_package_has_a_row() -> None:
    assert set(PACKAGES) == set(ALLOWED)


def test_the_readme_has_the_same_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    stated = {folder: set(re.findall(r"`(\w+)`", words)) for folder, words in rows if folder in ALLOWED}
    assert stated.pop("entrypoints") == set()  # "all of them"
    assert stated == {folder: may - {folder} for folder, may in ALLOWED.items() if folder != "entrypoints"}


def test_local_never_reaches_the_cluster_side() -> None:
    wrong = [name for name, file in modules("local") for target in imports(file) if target.startswith(CLUSTER_SIDE)]
    assert wrong == []


def test_contract_uses_the_standard_library_only() -> None:
    import sys

    wrong = [
        f"{name} imports {target}"
        for name, file in modules("contract")
        for target in imports(file)
        if target.split(".")[0] not in sys.stdlib_module_names | CONTRACT_MAY_USE
    ]
    assert wrong == []


def test_plugins_do_not_know_each_other() -> None:
    prefix = "trainyard.controller.plugins."
    siblings = {name for name, _ in modules("controller/plugins")}
    wrong = [
        f"{name} imports {target}"
        for name, file in modules("controller/plugins")
        if file.name != "__init__.py"
        for target in imports(file)
        if target.startswith(prefix) and target in siblings and target != name
    ]
    assert wrong == []


def test_every_folder_of_code_is_a_package_of_the_wheel() -> None:
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {
        ".".join(("trainyard", *folder.relative_to(ROOT).parts))
        for package in PACKAGES
        for folder in [ROOT / package, *(ROOT / package).rglob("*/")]
        if any(folder.glob("*.py"))
    }
    assert found == declared
