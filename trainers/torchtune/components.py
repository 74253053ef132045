"""The one door to torchtune: its building blocks, imported without its package.

torchtune 0.6.1 is frozen and pinned. Its `__init__` imports every data set class, pandas and `datasets`, and torchao's
imports all quantisation kernels and prints that its C++ extensions do not fit this torch (nothing here uses them): 1.3
s of CPU in every process, for blocks that need none of it. So the packages whose `__init__` does that stand in
`sys.modules` as bare folders while the blocks load, and are taken out again, which leaves a later `import torchtune`
to work as ever. A test compares the blocks with those of a plain import.
"""

import importlib
import sys
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any, Final

from trainyard.contract.errors import UnsupportedError

_BARE: Final = ("torchtune", "torchao", "torchao.dtypes")


def _enter_bare_package(name: str) -> None:
    """Enter a package that only knows its folder."""
    parent, _, _ = name.rpartition(".")
    spec = PathFinder.find_spec(name, sys.modules[parent].__path__ if parent else None)
    if spec is None or spec.submodule_search_locations is None:
        raise UnsupportedError(
            f"import {name}: not installed; the trainer needs the extra torchtune: pip install 'trainyard[torchtune]'"
        )
    package = ModuleType(name)
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules[name] = package


def _load(name: str) -> Any:
    entered = [package for package in _BARE if package not in sys.modules]
    try:
        for package in entered:
            _enter_bare_package(package)
        return importlib.import_module(name)
    finally:
        for package in entered:
            sys.modules.pop(package, None)


_modules = _load("torchtune.modules")
_lora = _load("torchtune.modules.peft.lora")
_dora = _load("torchtune.modules.peft.dora")

FeedForward = _modules.FeedForward
MultiHeadAttention = _modules.MultiHeadAttention
RMSNorm = _modules.RMSNorm
TiedLinear = _modules.TiedLinear
TransformerDecoder = _modules.TransformerDecoder
TransformerSelfAttentionLayer = _modules.TransformerSelfAttentionLayer
LoRALinear = _lora.LoRALinear
DoRALinear = _dora.DoRALinear
to_nf4 = _lora.to_nf4
