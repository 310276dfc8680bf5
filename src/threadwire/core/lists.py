"""How many things a request may list."""

from typing import Annotated, TypeVar

from pydantic import Field

MAX_LISTED = 10_000

T = TypeVar("T")
Listed = Annotated[list[T], Field(max_length=MAX_LISTED, fail_fast=True)]
"""A list as it may be sent. Only its first mistake is told: a body has room for millions, and to tell them all would
hold up everybody for as long as a minute."""
