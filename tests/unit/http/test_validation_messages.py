"""The error messages for invalid requests."""

from typing import Annotated, Literal

import pytest
from fastapi import Body, FastAPI, Header, Query
from fastapi.testclient import TestClient
from pydantic import BaseModel, field_validator

from threadwire.http import problems

Mode = Literal["a", "b"]


class Example(BaseModel):
    name: str
    modes: Mode | list[Mode] | None = None
    query: str | None = None
    even: int = 0

    @field_validator("even")
    @classmethod
    def _even(cls, even: int) -> int:
        if even % 2:
            raise ValueError("must be even")
        return even


@pytest.fixture
def client():
    app = FastAPI()
    problems.install(app)

    @app.post("/")
    async def endpoint(
        body: Annotated[Example, Body()],
        path: Annotated[int, Query()] = 0,
        some_header: Annotated[str | None, Header(max_length=3)] = None,
    ) -> None: ...

    with TestClient(app) as test_client:
        yield test_client


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
        ({"name": "x", "even": 5}, "even: must be even"),
    ],
)
def test_error_in_the_body_names_its_field(client, body, sentence):
    response = client.post("/", json=body)
    assert (response.status_code, response.json()) == (422, {"detail": sentence})


def test_errors_outside_the_body_name_their_parameters(client):
    response = client.post("/?path=x", json={"name": "x"}, headers={"some-header": "long"})
    assert response.json()["detail"].split("\n") == [
        "path: Input should be a valid integer, unable to parse string as an integer",
        "some-header: String should have at most 3 characters",
    ]
