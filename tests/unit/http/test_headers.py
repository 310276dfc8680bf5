import pytest

from threadwire.engine.request_context import EMPTY, request_configurable
from threadwire.http.headers import ConfigurableHeaders

pytestmark = pytest.mark.anyio


async def configurable_headers(headers, chosen=lambda name: True, kind="http"):
    seen = []

    async def app(scope, receive, send):
        seen.append(dict(request_configurable.get()))

    await ConfigurableHeaders(app, chosen)({"type": kind, "headers": headers}, None, None)
    return seen[0]


async def test_selected_headers_are_passed_on_in_lower_case():
    headers = [(b"X-One", "ü".encode("latin-1")), (b"x-two", b"2")]
    assert await configurable_headers(headers, lambda name: name == "x-one") == {"x-one": "ü"}


async def test_headers_cannot_set_checkpoint_or_runtime_keys():
    headers = [(b"checkpoint_id", b"x"), (b"Checkpoint_NS", b"x"), (b"__pregel_resuming", b"x"), (b"x-a", b"1")]
    assert await configurable_headers(headers) == {"x-a": "1"}


async def test_no_headers_are_passed_on_by_default():
    assert request_configurable.get() is EMPTY
