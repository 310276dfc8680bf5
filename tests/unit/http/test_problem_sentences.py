"""What a client is told when its request is not understood."""

from typing import Annotated, Literal

import pytest
from fastapi import Body, FastAPI, Header, Query
from fastapi.testclient import TestClient
from pydantic import BaseModel, field_validator

from threadwire.http import problems

Mode = Literal["a", "b"]


class Asked(BaseModel):
    name: str
    modes: Mode | list[Mode] | None = None
    query: str | None = None
    even: int = 0

    @field_validator("even")
    @classmethod
    def _even(cls, even: int) -> int:
        if even % 2:
            raise ValueError("odd numbers are odd")
        return even


@pytest.fixture
def client():
    app = FastAPI()
    problems.install(app)

    @app.post("/")
    async def ask(
        body: Annotated[Asked, Body()],
        path: Annotated[int, Query()] = 0,
        some_header: Annotated[str | None, Header(max_length=3)] = None,
    ) -> None: ...

    with TestClient(app) as opened:
        yield opened


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, '"name" is a required property'),
        ({"name": 5}, "name: Input should be a valid string"),
        (
            {"name": "x", "modes": ["c"]},
            "modes: Input should be 'a' or 'b'\nmodes.0: Input should be 'a' or 'b'",
        ),
        ({"name": "x", "modes": 5}, "modes: Input should be 'a' or 'b'\nmodes: Input should be a valid list"),
        ({"name": "x", "query": 5}, "query: Input should be a valid string"),
        ({"name": "x", "even": 5}, "even: odd numbers are odd"),
    ],
)
def test_a_mistake_is_named_by_its_field(client, body, sentence):
    response = client.post("/", json=body)
    assert (response.status_code, response.json()) == (422, {"detail": sentence})


def test_what_is_not_in_the_body_is_named_too(client):
    response = client.post("/?path=x", json={"name": "x"}, headers={"some-header": "long"})
    assert response.json()["detail"].split("\n") == [
        "path: Input should be a valid integer, unable to parse string as an integer",
        "some-header: String should have at most 3 characters",
    ]
