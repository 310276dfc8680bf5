"""Types that the bodies of all requests share."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StrictBool

Object = dict[str, Any]

MAX_PAGE = 1000


def _none_is_absent(value: Any) -> Any:
    return {} if value is None else value


OptionalObject = Annotated[Object, BeforeValidator(_none_is_absent)]
"""An object that may be missing or null; both mean an empty object."""


def _reject_strings(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError("Input should be a number")
    return value


def _require_string(value: Any) -> Any:
    if not isinstance(value, str | datetime | None):
        raise ValueError("Input should be a time in ISO 8601")
    return value


def _representable_in_utc(time: datetime) -> datetime:
    """Reject a time at either end of the calendar that UTC cannot represent."""
    if time.tzinfo is not None:
        try:
            time.astimezone(UTC)
        except OverflowError:
            raise ValueError("Input should be between the years 1 and 9999 in UTC") from None
    return time


# JSON has its own numbers and booleans. Pydantic would also accept strings in their place.
Integer = Annotated[int, BeforeValidator(_reject_strings)]
Number = Annotated[float, BeforeValidator(_reject_strings)]
Flag = StrictBool
Timestamp = Annotated[datetime, BeforeValidator(_require_string), AfterValidator(_representable_in_utc)]


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="ignore")
