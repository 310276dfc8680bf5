from dataclasses import dataclass, field
from typing import TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field

from threadwire.graphs.context_schema import build_context, matching_context


@dataclass
class AllDefaults:
    model: str = "small"
    tools: list[str] = field(default_factory=list)
    known: int = field(init=False, default=0)


@dataclass
class RequiredField:
    model: str
    size: int = 1


class Model(BaseModel):
    model: str = "small"
    top_k: int = Field(default=1, alias="topK")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Loose(TypedDict, total=False):
    model: str


@pytest.mark.parametrize(
    ("schema", "context", "fits"),
    [
        (None, None, None),
        (None, {}, None),
        (None, {"a": 1}, {"a": 1}),
        (Loose, {"model": "x", "a": 1}, {"model": "x", "a": 1}),
        (Loose, {}, None),
        (AllDefaults, None, {}),
        (AllDefaults, {"a": 1, "known": 2}, {}),
        (AllDefaults, {"a": 1, "model": "x"}, {"model": "x"}),
        (RequiredField, None, None),
        (RequiredField, {"a": 1}, None),
        (RequiredField, {"size": 2}, {"size": 2}),
        (Model, {"topK": 2, "top_k": 3, "a": 1}, {"topK": 2, "top_k": 3}),
        (Open, {"a": 1}, {"a": 1}),
        (RequiredField, 7, 7),
        (int, {"a": 1}, {"a": 1}),
    ],
)
def test_class_gets_only_the_keys_it_has_fields_for(schema, context, fits):
    assert matching_context(context, schema) == fits


def test_class_is_instantiated_from_matching_keys():
    assert build_context({"model": "x", "a": 1}, AllDefaults) == AllDefaults("x")
    assert build_context(None, AllDefaults) == AllDefaults()
    assert build_context(None, RequiredField) is None
    assert build_context({"a": 1}, Loose) == {"a": 1}
    with pytest.raises(TypeError, match="model"):
        build_context({"size": 1}, RequiredField)
