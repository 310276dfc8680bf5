"""The list type of request bodies, with its length limit."""

from typing import Annotated, TypeVar

from pydantic import Field

MAX_LIST_LENGTH = 10_000

T = TypeVar("T")
BoundedList = Annotated[list[T], Field(max_length=MAX_LIST_LENGTH, fail_fast=True)]
"""A list of limited length. Validation stops at the first error: a body can contain millions of errors, and reporting
all of them would block the event loop for up to a minute."""
