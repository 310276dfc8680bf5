"""The body of a request about an interrupt."""

from pydantic import BaseModel, Field, StrictBool, model_validator

from threadwire.core.entries import Json
from threadwire.core.json import dumps

MAX_FROZEN_BYTES = 1024 * 1024
"""The maximum size of a frozen value, in bytes of JSON. It is part of every page that contains its block."""


class Submission(BaseModel):
    """What a widget showed when it was submitted, and the answer to its interrupt."""

    frozen_value: Json = Field(None, alias="frozenValue", description="What the widget showed")
    response: Json = Field(None, description="The answer, with `resume`")
    resume: StrictBool = Field(False, description="Whether to answer the graph, which starts a run")

    @model_validator(mode="after")
    def _check(self) -> "Submission":
        if "response" in self.model_fields_set and not self.resume:
            raise ValueError("response: requires `resume: true`; without it, the graph receives no answer")
        return self

    @property
    def frozen(self) -> tuple[Json] | None:
        """The frozen value in a tuple, because it may be null; None if there is none."""
        return (self.frozen_value,) if "frozen_value" in self.model_fields_set else None

    @property
    def has_response(self) -> bool:
        return "response" in self.model_fields_set

    @property
    def is_too_large(self) -> bool:
        return self.frozen is not None and len(dumps(self.frozen_value)) > MAX_FROZEN_BYTES
