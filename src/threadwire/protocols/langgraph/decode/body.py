"""What the bodies of all requests have in common."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

Object = dict[str, Any]

MAX_PAGE = 1000


def _none_is_absent(value: Any) -> Any:
    return {} if value is None else value


OptionalObject = Annotated[Object, BeforeValidator(_none_is_absent)]
"""An object that may be missing or null; both mean empty."""


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="ignore")
