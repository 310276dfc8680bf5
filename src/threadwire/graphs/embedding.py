"""What turns items into vectors: the project's embedding function, or a provider's model.

It is user code, so it runs where user code runs: on one loop, because people keep async clients at module level, and
in a node's thread if it is called from one.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base.embed import EmbeddingsLambda, ensure_embeddings, get_text_at_path

from threadwire.core.vectors import unit
from threadwire.errors import ConfigError, GraphFailed
from threadwire.graphs.brought import load
from threadwire.graphs.modules import ProjectModules, name_and_message
from threadwire.graphs.persistence import IndexConfig
from threadwire.graphs.source import CodeSource
from threadwire.graphs.user_loop import UserLoop

_KEY = "store.index.embed"


def load_embeddings(embed: CodeSource | str, modules: ProjectModules) -> Embeddings:
    """Raises `ConfigError` for what is not there, or is no embedding."""
    if isinstance(embed, CodeSource):
        target = load(_KEY, embed, modules)
        if not isinstance(target, Embeddings) and not callable(target):
            raise ConfigError(f'"{_KEY}": {embed} is neither a function of texts nor an Embeddings object.')
        return ensure_embeddings(target)
    try:
        return ensure_embeddings(embed)
    except Exception as error:  # a provider's package: missing, or wanting a key
        raise ConfigError(f'"{_KEY}": {embed} cannot be used: {name_and_message(error)}') from error


class Index:
    """Which texts of an item count, and their vectors."""

    def __init__(self, config: IndexConfig, embeddings: Embeddings, home: UserLoop) -> None:
        self._config = config
        self._embeddings = embeddings
        self._home = home

    def texts(self, value: dict[str, Any], paths: Sequence[str] | None) -> list[str]:
        fields = self._config.fields if paths is None else paths
        return [text for path in fields for text in get_text_at_path(value, path)]

    async def avectors(self, texts: list[str]) -> list[bytes]:
        """Usable on any loop."""
        return self._checked(await self._home.here_or_there(lambda: self._embeddings.aembed_documents(texts)), texts)

    async def aquery(self, text: str) -> bytes:
        """Usable on any loop. A model may treat a question otherwise than what answers it."""
        [vector] = self._checked([await self._home.here_or_there(lambda: self._embeddings.aembed_query(text))], [text])
        return vector

    def vectors(self, texts: list[str]) -> list[bytes]:
        """Blocks the caller's thread."""
        if self._only_async:
            found = self._home.ask(lambda: self._embeddings.aembed_documents(texts))
        else:
            found = self._embeddings.embed_documents(texts)
        return self._checked(found, texts)

    def query(self, text: str) -> bytes:
        """Blocks the caller's thread."""
        if self._only_async:
            found = self._home.ask(lambda: self._embeddings.aembed_query(text))
        else:
            found = self._embeddings.embed_query(text)
        [vector] = self._checked([found], [text])
        return vector

    @property
    def _only_async(self) -> bool:
        return isinstance(self._embeddings, EmbeddingsLambda) and hasattr(self._embeddings, "afunc")

    def _checked(self, found: Sequence[Sequence[float]], texts: list[str]) -> list[bytes]:
        if len(found) != len(texts):
            raise GraphFailed(f"The embedding function gave {len(found)} vectors for {len(texts)} texts.")
        for vector in found:
            if len(vector) != self._config.dims:
                raise GraphFailed(
                    f"The embedding function gave a vector of {len(vector)} dimensions; "
                    f"`store.index.dims` says {self._config.dims}."
                )
        return [unit([float(each) for each in vector]) for vector in found]
