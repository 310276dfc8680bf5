"""References to the project's code in langgraph.json, such as `./agent.py:graph`."""

from dataclasses import dataclass
from pathlib import Path

from threadwire.errors import ConfigError

SCRIPT_SUFFIXES = frozenset({".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"})
"""JavaScript and TypeScript."""
# The suffix distinguishes a file from a package. Other languages are included so that they get a clear error later.
_FILE_SUFFIXES = SCRIPT_SUFFIXES | {".py"}


@dataclass(frozen=True)
class CodeReference:
    """`location` is `./file.py` or `package.module`, `attribute` a name in it."""

    location: str
    attribute: str

    def __str__(self) -> str:
        return f"{self.location}:{self.attribute}"

    @property
    def is_file(self) -> bool:
        return "/" in self.location or "\\" in self.location or Path(self.location).suffix in _FILE_SUFFIXES


def split_source(where: str, path: object) -> tuple[str, str]:
    """Split a path into location and attribute. Raises `ConfigError`; `where` names the key that holds the path."""
    if not isinstance(path, str):
        raise ConfigError(f'{where}: the path must be a string like "./agent.py:graph", not {kind_of(path)}.')
    location, attribute = (half.strip() for half in path.rpartition(":")[::2])
    if location and "." in attribute and all(name.isidentifier() for name in attribute.split(".")):
        raise ConfigError(f'{where}: "{path}" names a nested attribute. Name an attribute of the module itself.')
    if not location or not attribute.isidentifier():
        raise ConfigError(
            f'{where}: "{path}" does not name an object. Write it as "./file.py:name" or "package.module:name".'
        )
    return location, attribute


def kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"
