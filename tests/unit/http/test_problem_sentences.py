"""What a client is told when its request is not understood."""

from typing import Annotated, Literal

import pytest
from fastapi import Body, FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel

from threadwire.http import problems

Mode = Literal["a", "b"]


class Asked(BaseModel):
    name: str
    modes: Mode | list[Mode] | None = None


@pytest.fixture
def client():
    app = FastAPI()
    problems.install(app)

    @app.post("/")
    async def ask(body: Annotated[Asked, Body()]) -> None: ...

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
    ],
)
def test_a_mistake_is_named_by_its_field(client, body, sentence):
    response = client.post("/", json=body)
    assert (response.status_code, response.json()) == (422, {"detail": sentence})
