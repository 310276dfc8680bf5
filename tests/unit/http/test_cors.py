import httpx
import pytest
from starlette.applications import Starlette

from threadwire.http.cors import ConditionalCors

pytestmark = pytest.mark.anyio

PAGE = "https://page.example"


async def preflight(origin):
    app = ConditionalCors(Starlette(), "https://page[.]example", ())
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-private-network": "true",
    }
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:2024") as client:
        return await client.options("/threads", headers=headers)


async def test_a_page_of_an_allowed_origin_may_call_a_private_network():
    response = await preflight(PAGE)
    assert response.status_code == 200
    assert response.headers["access-control-allow-private-network"] == "true"
    assert response.headers["access-control-allow-origin"] == PAGE


async def test_a_page_of_another_origin_may_not():
    response = await preflight("https://other.example")
    assert response.status_code == 400
    assert "access-control-allow-origin" not in response.headers
