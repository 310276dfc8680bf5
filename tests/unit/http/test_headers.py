import pytest

from threadwire.engine.request import NOTHING, brought_along
from threadwire.http.headers import ConfigurableHeaders

pytestmark = pytest.mark.anyio


async def brought(headers, chosen=lambda name: True, kind="http"):
    seen = []

    async def app(scope, receive, send):
        seen.append(dict(brought_along.get()))

    await ConfigurableHeaders(app, chosen)({"type": kind, "headers": headers}, None, None)
    return seen[0]


async def test_chosen_headers_are_brought_along_in_lower_case():
    headers = [(b"X-One", "ü".encode("latin-1")), (b"x-two", b"2")]
    assert await brought(headers, lambda name: name == "x-one") == {"x-one": "ü"}


async def test_a_header_cannot_say_where_a_run_starts_or_speak_for_the_runtime():
    headers = [(b"checkpoint_id", b"x"), (b"Checkpoint_NS", b"x"), (b"__pregel_resuming", b"x"), (b"x-a", b"1")]
    assert await brought(headers) == {"x-a": "1"}


async def test_nothing_is_brought_along_by_itself():
    assert brought_along.get() is NOTHING
