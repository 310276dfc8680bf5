"""Request bodies for the store: putting, deleting and searching items, and listing namespaces."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from threadwire.core.bounded_list import BoundedList
from threadwire.core.store_items import MAX_MINUTES
from threadwire.errors import Invalid
from threadwire.protocols.langgraph.decode.body import (
    MAX_PAGE,
    Flag,
    Integer,
    Number,
    Object,
    OptionalObject,
    RequestBody,
)


def _validate_labels(namespace: list[str]) -> list[str]:
    for label in namespace:
        if not label or "." in label or "\0" in label:
            raise Invalid(f"Namespace label '{label[:200]}' must be a non-empty string without periods")
    return namespace


Namespace = Annotated[BoundedList[str], AfterValidator(_validate_labels)]


class ItemName(RequestBody):
    namespace: Namespace
    key: str


class ItemBody(ItemName):
    value: Object
    index: Literal[False] | BoundedList[str] | None = None
    ttl: Number | None = Field(default=None, gt=0, le=MAX_MINUTES)

    def options(self) -> dict[str, Any]:
        """Arguments of the store. Without `ttl` the store's default applies; null means that the item never expires."""
        ttl = {"ttl": self.ttl} if "ttl" in self.model_fields_set else {}
        return {"index": self.index, **ttl}


class ItemSearch(RequestBody):
    namespace_prefix: Namespace = Field(default_factory=list)
    filter: OptionalObject = Field(default_factory=dict)
    query: str | None = None
    limit: Integer = Field(default=10, ge=1, le=MAX_PAGE)
    offset: Integer = Field(default=0, ge=0, le=2**53)
    refresh_ttl: Flag | None = None

    def options(self) -> dict[str, Any]:
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
    max_depth: Integer | None = Field(default=None, ge=1, le=2**53)
    limit: Integer = Field(default=100, ge=1, le=MAX_PAGE)
    offset: Integer = Field(default=0, ge=0, le=2**53)

    def options(self) -> dict[str, Any]:
        return {
            "prefix": tuple(self.prefix or ()),
            "suffix": tuple(self.suffix or ()),
            "max_depth": self.max_depth,
            "limit": self.limit,
            "offset": self.offset,
        }


def decode_query_namespace(values: list[str]) -> list[str]:
    """A namespace in a query: its labels, joined by dots."""
    if len(values) != 1:
        raise Invalid("namespace must be given once, with its labels joined by dots")
    return _validate_labels(values[0].split("."))
