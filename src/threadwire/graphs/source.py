"""Where a piece of the project's code is, as langgraph.json says it."""

from dataclasses import dataclass
from pathlib import Path

from threadwire.errors import ConfigError

# A package named "agents" is told from a file by its suffix; the others are here to be refused by name later.
_FILE_SUFFIXES = frozenset({".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"})


@dataclass(frozen=True)
class CodeSource:
    """`location` is `./file.py` or `package.module`, `attribute` a name in it."""

    location: str
    attribute: str

    def __str__(self) -> str:
        return f"{self.location}:{self.attribute}"

    @property
    def is_file(self) -> bool:
        return "/" in self.location or "\\" in self.location or Path(self.location).suffix in _FILE_SUFFIXES


def split_source(where: str, path: object) -> tuple[str, str]:
    """Location and attribute. Raises `ConfigError` with the words of `where`, the key that holds the path."""
    if not isinstance(path, str):
        raise ConfigError(f'{where}: the path must be a text like "./agent.py:graph", not {kind_of(path)}.')
    location, attribute = (half.strip() for half in path.rpartition(":")[::2])
    if location and "." in attribute and all(name.isidentifier() for name in attribute.split(".")):
        raise ConfigError(
            f'{where}: "{path}" names something inside of something else. Name what is in the module itself.'
        )
    if not location or not attribute.isidentifier():
        raise ConfigError(
            f'{where}: "{path}" does not say which object to serve. '
            f'Write it as "./file.py:name" or "package.module:name".'
        )
    return location, attribute


def kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"
