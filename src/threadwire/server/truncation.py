"""`POST /internal/truncate`: delete threads and assistants, between two tests. Served by `dev` only, and only to this
machine."""

from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Annotated, TypeVar

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict

from threadwire.core.records import AssistantQuery, CronQuery, ThreadQuery
from threadwire.engine.lifecycle import Engine
from threadwire.errors import NotFound
from threadwire.http.json_route import JsonRoute
from threadwire.http.problems import JsonResponse

T = TypeVar("T")

PATH = "/internal/truncate"

_PAGE = 100


class Truncated(BaseModel):
    """What to delete. Runs and checkpoints are deleted with the threads that they belong to."""

    model_config = ConfigDict(extra="forbid")

    runs: bool = False
    threads: bool = False
    assistants: bool = False
    checkpointer: bool = False
    store: bool = False


_DEFAULT = Truncated(runs=True, threads=True, assistants=True, checkpointer=True)
"""What to delete without a body: everything except the store, as on the stock server."""


def truncation_route(engine: Engine) -> APIRouter:
    router = APIRouter(route_class=JsonRoute, default_response_class=JsonResponse, include_in_schema=False)

    @router.post(PATH)
    async def truncate(request: Request, body: Annotated[Truncated | None, Body()] = None) -> JsonResponse:
        if not _is_local(request):
            raise NotFound("Not Found")
        await _truncate(engine, body or _DEFAULT)
        return JsonResponse({"ok": True})

    return router


def _is_local(request: Request) -> bool:
    """Whether the request comes from this machine. Requests from inside the process have no address."""
    if request.client is None:
        return True
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False


async def _truncate(engine: Engine, what: Truncated) -> None:
    if what.runs or what.threads or what.checkpointer:
        await engine.threads.delete_all(ThreadQuery())
        await _delete_all(
            lambda: engine.crons.search(CronQuery(limit=_PAGE)), lambda cron: engine.crons.delete(cron.cron_id)
        )
    if what.assistants:
        await _delete_assistants(engine)
    if what.store:
        await _delete_all(
            lambda: engine.store.search([], limit=_PAGE),
            lambda item: engine.store.delete(list(item.namespace), item.key),
        )


async def _delete_all(find: Callable[[], Awaitable[list[T]]], delete: Callable[[T], Awaitable[None]]) -> None:
    """Delete page by page, until nothing is found."""
    while found := await find():
        for each in found:
            await delete(each)


async def _delete_assistants(engine: Engine) -> None:
    """Delete all assistants except the default ones, which exist as long as their graphs do."""
    offset = 0
    while found := await engine.assistants.search(AssistantQuery(limit=_PAGE, offset=offset)):
        for assistant in found:
            if engine.assistants.is_default(assistant.assistant_id):
                offset += 1
            else:
                await engine.assistants.delete(assistant.assistant_id, delete_threads=False)
