"""Embeddings of store items: the project's embedding function, or a provider's model.

Embedding functions are the project's code. Async ones run on the worker loop, because projects keep async clients at
module level; sync ones called from a node's thread run on that thread.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base.embed import EmbeddingsLambda, ensure_embeddings, get_text_at_path

from threadwire.core.vectors import unit_vector
from threadwire.errors import ConfigError, GraphFailed
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.custom_persistence import load
from threadwire.graphs.persistence_config import IndexConfig
from threadwire.graphs.project_modules import ProjectModules, name_and_message
from threadwire.graphs.user_loop import UserLoop

_KEY = "store.index.embed"


def load_embeddings(embed: CodeReference | str, modules: ProjectModules) -> Embeddings:
    """Raises `ConfigError` if the source does not exist or is not an embedding."""
    if isinstance(embed, CodeReference):
        target = load(_KEY, embed, modules)
        if not isinstance(target, Embeddings) and not callable(target):
            raise ConfigError(f'"{_KEY}": {embed} is neither a function nor an Embeddings object.')
        return ensure_embeddings(target)
    try:
        return ensure_embeddings(embed)
    except Exception as error:  # the provider's package or its API key is missing
        raise ConfigError(f'"{_KEY}": {embed} cannot be used: {name_and_message(error)}') from error


class Index:
    """Extracts the texts of an item and embeds them."""

    def __init__(self, config: IndexConfig, embeddings: Embeddings, loop: UserLoop) -> None:
        self._config = config
        self._embeddings = embeddings
        self._loop = loop

    def texts(self, value: dict[str, Any], paths: Sequence[str] | None) -> list[str]:
        fields = self._config.fields if paths is None else paths
        return [text for path in fields for text in get_text_at_path(value, path)]

    async def avectors(self, texts: list[str]) -> list[bytes]:
        """May be called on any loop."""
        return self._checked(await self._loop.run_or_await(lambda: self._embeddings.aembed_documents(texts)), texts)

    async def aquery(self, text: str) -> bytes:
        """May be called on any loop. Separate from `avectors`, because a model may embed queries differently."""
        [vector] = self._checked([await self._loop.run_or_await(lambda: self._embeddings.aembed_query(text))], [text])
        return vector

    def vectors(self, texts: list[str]) -> list[bytes]:
        """Blocks the caller's thread."""
        if self._only_async:
            embedded = self._loop.run_blocking(lambda: self._embeddings.aembed_documents(texts))
        else:
            embedded = self._embeddings.embed_documents(texts)
        return self._checked(embedded, texts)

    def query(self, text: str) -> bytes:
        """Blocks the caller's thread."""
        if self._only_async:
            embedded = self._loop.run_blocking(lambda: self._embeddings.aembed_query(text))
        else:
            embedded = self._embeddings.embed_query(text)
        [vector] = self._checked([embedded], [text])
        return vector

    @property
    def _only_async(self) -> bool:
        return isinstance(self._embeddings, EmbeddingsLambda) and hasattr(self._embeddings, "afunc")

    def _checked(self, embedded: Sequence[Sequence[float]], texts: list[str]) -> list[bytes]:
        if len(embedded) != len(texts):
            raise GraphFailed(f"The embedding function returned {len(embedded)} vectors for {len(texts)} texts.")
        for vector in embedded:
            if len(vector) != self._config.dims:
                raise GraphFailed(
                    f"The embedding function returned a vector of {len(vector)} dimensions, "
                    f"but `store.index.dims` is {self._config.dims}."
                )
        return [unit_vector([float(each) for each in vector]) for vector in embedded]
