"""Custom routes that need no credential: one that says hello, and one that lists what the handlers saw."""

from calls import CALLS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def hello(request: Request) -> JSONResponse:
    return JSONResponse({"hello": "world"})


async def calls(request: Request) -> JSONResponse:
    return JSONResponse(CALLS[request.path_params["identity"]])


app = Starlette(routes=[Route("/hello", hello), Route("/calls/{identity}", calls)])
