"""How items of the store are put, got, looked for and listed."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from threadwire.core.items import MAX_MINUTES
from threadwire.core.lists import Listed
from threadwire.errors import Invalid
from threadwire.protocols.langgraph.decode.body import (
    MAX_PAGE,
    Flag,
    Number,
    Object,
    OptionalObject,
    RequestBody,
    Whole,
)


def _labels(namespace: list[str]) -> list[str]:
    for label in namespace:
        if not label or "." in label or "\0" in label:
            raise Invalid(f"Namespace label '{label[:200]}' must be a non-empty string without periods")
    return namespace


Namespace = Annotated[Listed[str], AfterValidator(_labels)]


class ItemName(RequestBody):
    namespace: Namespace
    key: str


class ItemBody(ItemName):
    value: Object
    index: Literal[False] | Listed[str] | None = None
    ttl: Number | None = Field(default=None, gt=0, le=MAX_MINUTES)

    def how(self) -> dict[str, Any]:
        """Without a time to live the store's own is given; null is for ever."""
        ttl = {"ttl": self.ttl} if "ttl" in self.model_fields_set else {}
        return {"index": self.index, **ttl}


class ItemSearch(RequestBody):
    namespace_prefix: Namespace = Field(default_factory=list)
    filter: OptionalObject = Field(default_factory=dict)
    query: str | None = None
    limit: Whole = Field(default=10, ge=1, le=MAX_PAGE)
    offset: Whole = Field(default=0, ge=0, le=2**53)
    refresh_ttl: Flag | None = None

    def how(self) -> dict[str, Any]:
        return {
            "filter": self.filter or None,
            "query": self.query,
            "limit": self.limit,
            "offset": self.offset,
            "refresh_ttl": self.refresh_ttl,
        }


class NamespaceSearch(RequestBody):
    prefix: Namespace | None = None
    suffix: Namespace | None = None
    max_depth: Whole | None = Field(default=None, ge=1, le=2**53)
    limit: Whole = Field(default=100, ge=1, le=MAX_PAGE)
    offset: Whole = Field(default=0, ge=0, le=2**53)

    def how(self) -> dict[str, Any]:
        return {
            "prefix": tuple(self.prefix or ()),
            "suffix": tuple(self.suffix or ()),
            "max_depth": self.max_depth,
            "limit": self.limit,
            "offset": self.offset,
        }


def decode_query_namespace(given: list[str]) -> list[str]:
    """A namespace in a query: its labels, joined by dots."""
    if len(given) != 1:
        raise Invalid("namespace is given once, its labels joined by dots")
    return _labels(given[0].split("."))
