"""Calling the handlers of a project's `Auth` object."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from langgraph_sdk import Auth
from structlog.testing import capture_logs

from threadwire.core.access_filter import EVERYTHING, parse_access_filter
from threadwire.core.users import User, make_user
from threadwire.errors import AuthFailed, ConfigError, Forbidden, Rejected, Unauthenticated
from threadwire.graphs.auth_config import read_auth
from threadwire.graphs.langgraph_private.auth_handlers import missing_names
from threadwire.graphs.project_auth import ProjectAuth
from threadwire.graphs.user_loop import UserLoop

pytestmark = pytest.mark.anyio

ADA = make_user("ada")
assert ADA is not None
SECRET = "a-very-secret-token"


@pytest.fixture(scope="module")
def loop() -> Iterator[UserLoop]:
    with UserLoop("auth") as loop:
        yield loop


def scope(**changes: Any) -> dict[str, Any]:
    headers = [(b"authorization", f"Bearer {SECRET}".encode()), (b"x-one", b"1")]
    return {"type": "http", "method": "GET", "path": "/threads", "query_string": b"a=1", "headers": headers, **changes}


async def authenticate(loop: UserLoop, handler: Any, timeout: float = 30) -> User:
    auth = Auth()
    auth.authenticate(handler)
    return await ProjectAuth(auth, loop, timeout).authenticate(scope())


async def test_a_handler_gets_what_it_names(loop: UserLoop) -> None:
    async def handler(
        request: Any, path: str, method: str, path_params: Any, query_params: Any, headers: Any, authorization: str
    ) -> dict[str, Any]:
        given = [request.url.path, path, method, path_params, query_params, headers[b"x-one"].decode(), authorization]
        return {"identity": "ada", "given": given}

    user = await authenticate(loop, handler)
    assert user.given == ["/threads", "/threads", "GET", {}, {"a": "1"}, "1", f"Bearer {SECRET}"]


async def test_users_are_strings_mappings_or_objects(loop: UserLoop) -> None:
    class Member:
        identity = "ada"
        permissions = ("read",)

        def __init__(self) -> None:
            self.team = "navy"

    expected = {"identity": "ada", "is_authenticated": True, "display_name": "ada"}
    assert await authenticate(loop, lambda: "ada") == {**expected, "permissions": []}
    assert await authenticate(loop, lambda: {"identity": "ada", "n": 1}) == {**expected, "permissions": [], "n": 1}
    member = await authenticate(loop, Member)
    assert member == {**expected, "permissions": ["read"], "team": "navy"}
    assert (member.team, member["team"]) == ("navy", "navy")


async def test_nobody_is_not_authenticated(loop: UserLoop) -> None:
    with pytest.raises(Unauthenticated):
        await authenticate(loop, lambda: None)


async def test_a_handler_rejects_with_its_own_status(loop: UserLoop) -> None:
    async def handler() -> None:
        raise Auth.exceptions.HTTPException(status_code=418, detail="teapot", headers={"X-A": "b"})

    with pytest.raises(Rejected) as rejected:
        await authenticate(loop, handler)
    assert (rejected.value.status, rejected.value.message, rejected.value.headers) == (418, "teapot", {"X-A": "b"})


async def test_a_failing_handler_reveals_nothing(loop: UserLoop) -> None:
    async def handler(authorization: str) -> None:
        raise ValueError(f"cannot parse {authorization}")

    with capture_logs() as logs, pytest.raises(AuthFailed) as failed:
        await authenticate(loop, handler)
    assert "ValueError" in logs[0]["reason"]
    assert logs[0]["error_id"] in failed.value.message
    assert SECRET not in str(logs) + failed.value.message


@pytest.mark.parametrize("blocks", [True, False])
async def test_a_handler_has_a_limited_time(blocks: bool) -> None:
    async def handler() -> None:
        if blocks:
            time.sleep(1)  # noqa: ASYNC251 - that is what must not block anything else
        await asyncio.sleep(60)

    with UserLoop("slow auth") as loop, pytest.raises(AuthFailed):
        await authenticate(loop, handler, timeout=0.05)


async def test_exit_in_a_handler_does_not_end_the_server(loop: UserLoop) -> None:
    async def handler() -> None:
        raise SystemExit(1)

    with pytest.raises(AuthFailed):
        await authenticate(loop, handler)
    assert await authenticate(loop, lambda: "ada")


@pytest.mark.parametrize(
    ("resource", "action", "expected"),
    [
        ("threads", "read", "threads.read"),
        ("threads", "delete", "threads"),
        ("crons", "delete", "any delete"),
        ("assistants", "read", "everything"),
    ],
)
async def test_the_most_specific_handler_is_called(loop: UserLoop, resource: str, action: str, expected: str) -> None:
    auth = Auth()

    def named(name: str) -> Any:
        async def handler(ctx: Auth.types.AuthContext, value: Any) -> dict[str, str]:
            return {"handler": name}

        return handler

    auth.on(named("everything"))
    auth.on(actions="delete")(named("any delete"))
    auth.on.threads(named("threads"))
    auth.on.threads.read(named("threads.read"))
    assert ADA is not None
    found = await ProjectAuth(auth, loop, 30).filter_for(ADA, resource, action, {})
    assert found == parse_access_filter({"handler": expected})


async def test_outcomes_of_handlers(loop: UserLoop) -> None:
    auth = Auth()
    outcome: Any = None

    async def handler(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Any:
        assert outcome != "assert", "not yours"
        value["id"] = value["thread_id"]
        return outcome

    auth.on(handler)
    project, value = ProjectAuth(auth, loop, 30), {"thread_id": "01a1e73b-4f7e-76cd-84ed-cf56dc240206"}
    assert ADA is not None
    for outcome in (None, True):  # noqa: B007 - the handler returns it
        assert await project.filter_for(ADA, "threads", "read", value) == EVERYTHING
    assert value["id"] == UUID("01a1e73b-4f7e-76cd-84ed-cf56dc240206")
    outcome = False
    with pytest.raises(Forbidden, match=r"^$") as forbidden:
        await project.filter_for(ADA, "threads", "read", {"thread_id": ""})
    assert forbidden.value.message == "Forbidden"
    outcome = "assert"
    with pytest.raises(Forbidden, match="not yours"):
        await project.filter_for(ADA, "threads", "read", {"thread_id": ""})
    for outcome in (7, [], {"owner": {"$gt": 1}}):  # noqa: B007
        with pytest.raises(AuthFailed):
            await project.filter_for(ADA, "threads", "read", {"thread_id": ""})


async def test_without_a_handler_everything_is_allowed(loop: UserLoop) -> None:
    assert ADA is not None
    assert await ProjectAuth(Auth(), loop, 30).filter_for(ADA, "threads", "read", {}) == EVERYTHING


async def test_a_changed_sdk_is_noticed() -> None:
    class Changed:
        _handlers: dict[Any, Any] = {}  # noqa: RUF012

    assert missing_names(Auth()) == []
    assert missing_names(Changed()) == ["_authenticate_handler", "_global_handlers"]  # type: ignore[arg-type]


@pytest.mark.parametrize("section", [7, {}, {"path": 7}, {"path": "x"}, {"path": "./a.py:b", "openapi": []}])
async def test_an_invalid_section_is_rejected(section: Any) -> None:
    assert read_auth(None) is None
    with pytest.raises(ConfigError, match='"auth"'):
        read_auth(section)
