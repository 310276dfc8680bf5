"""What the bodies of all requests have in common."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StrictBool

Object = dict[str, Any]

MAX_PAGE = 1000


def _none_is_absent(value: Any) -> Any:
    return {} if value is None else value


OptionalObject = Annotated[Object, BeforeValidator(_none_is_absent)]
"""An object that may be missing or null; both mean empty."""


def _no_guess(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError("Input should be a number")
    return value


def _said_in_words(value: Any) -> Any:
    if not isinstance(value, str | datetime | None):
        raise ValueError("Input should be a time in ISO 8601")
    return value


def _in_the_calendar(time: datetime) -> datetime:
    """What a zone shows at either end of the calendar may lie beyond it in UTC, where it could not be shown."""
    if time.tzinfo is not None:
        try:
            time.astimezone(UTC)
        except OverflowError:
            raise ValueError("Input should be a time of the years 1 to 9999, in UTC") from None
    return time


# JSON has numbers and truth of its own: what is written as something else is a mistake, and pydantic would guess.
Whole = Annotated[int, BeforeValidator(_no_guess)]
Number = Annotated[float, BeforeValidator(_no_guess)]
Flag = StrictBool
Moment = Annotated[datetime, BeforeValidator(_said_in_words), AfterValidator(_in_the_calendar)]


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="ignore")
