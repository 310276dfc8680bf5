"""The settings of the server and of all protocols, as one class.

To the operator there is no difference: an environment variable, an option or an argument of `create_app` may belong to
the server or to a protocol. An instance of the combined class is also an instance of each protocol's own class.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, cast

from pydantic import create_model

from threadwire.environment import PREFIX, EnvironmentSettings
from threadwire.errors import ConfigError
from threadwire.http.protocol import Protocol
from threadwire.server.protocols import PROTOCOLS
from threadwire.settings import Settings

CLIENT_VARIABLES = frozenset({"THREADWIRE_URL", "THREADWIRE_API_KEY"})
"""Variables that `threadwire watch` reads. They are not server settings."""


def combined_settings(protocols: Iterable[Protocol[Any]] = PROTOCOLS) -> type[Settings]:
    """Return a class with the fields of the server and of these protocols. Raise `TypeError` if two unrelated classes
    define the same field."""
    classes = dict.fromkeys(each.settings for each in protocols if each.settings is not None)
    # A class that another one extends adds nothing, and Python does not allow it as a base class before the other.
    leaves = [each for each in classes if not any(each in other.__mro__[1:] for other in classes)]
    _reject_shared_names([Settings, *leaves])
    return cast("type[Settings]", create_model("Settings", __base__=(Settings, *leaves)))


def _reject_shared_names(classes: Iterable[type[EnvironmentSettings]]) -> None:
    for one, other in combinations(classes, 2):
        for name in one.model_fields.keys() & other.model_fields.keys():
            if _defining_class(one, name) is not _defining_class(other, name):
                raise TypeError(f"{one.__name__} and {other.__name__} both define the setting {name}")


def _defining_class(settings: type[EnvironmentSettings], name: str) -> type:
    ancestors = [each for each in settings.__mro__ if issubclass(each, EnvironmentSettings)]
    return next(each for each in reversed(ancestors) if name in each.model_fields)


def check_settings(settings: Settings, graph_ids: Sequence[str]) -> None:
    """Raise `ConfigError` if a protocol's settings are invalid for a project with these graphs."""
    for protocol in PROTOCOLS:
        assert protocol.settings is None or isinstance(settings, protocol.settings), "use `combined_settings`"
        protocol.check_settings(settings, graph_ids)


def reject_unknown_variables(environment: Mapping[str, str] = os.environ) -> None:
    """Raise `ConfigError` for an unknown `THREADWIRE_` variable, because a misspelt one would silently do nothing."""
    known = CLIENT_VARIABLES | {PREFIX + name.upper() for name in combined_settings().model_fields}
    for name in environment:
        if name.startswith(PREFIX) and name not in known and not name.startswith(f"{PREFIX}EXAMPLE_"):
            raise ConfigError(f"{name} is not a Threadwire setting; see docs/reference/settings.md")
