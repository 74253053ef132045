"""Find installed plugins: entry points of the group `trainyard.plugins`, beside those that we ship.

For the edges (command line, controller) that call `plan`; the plan itself looks at nothing that is installed. An entry
point names a plugin object, or a class that makes one without arguments:

    [project.entry-points."trainyard.plugins"]
    my-framework = "my_package.my_module:MyFramework"
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, get_args

from trainyard.contract.errors import ConfigError
from trainyard.controller.phases import Plugin
from trainyard.controller.plugins import BUILT_IN

GROUP: Final = "trainyard.plugins"


@cache
def default_plugins() -> tuple[Plugin, ...]:
    """Give our plugins with installed ones among them, in a fixed order; raise ConfigError that names a broken one.

    Installed plugins follow ours in the order of their names, and only the JobSet comes after them, so that what they
    make is there when pods start.
    """
    installed = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    return (*BUILT_IN[:-1], *map(_load, installed), BUILT_IN[-1])


def _load(entry: EntryPoint) -> Plugin:
    distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown distribution"
    called = f"plugin {entry.name!r} ({entry.value}) of {distribution}"
    try:
        loaded: Any = entry.load()
        plugin = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:  # Whatever a foreign module does, the message must say whose it is.
        raise ConfigError(
            f"{called}: cannot be loaded: {type(error).__name__}: {error}; fix or uninstall it"
        ) from error
    if not isinstance(plugin, get_args(Plugin)):
        phases = ", ".join(phase.__name__ for phase in get_args(Plugin))
        raise ConfigError(f"{called}: expected an object with the method of a phase ({phases}), got {plugin!r}")
    known: Plugin = plugin
    return known
