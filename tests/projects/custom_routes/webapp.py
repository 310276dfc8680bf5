"""Routes of the project next to those of the server, with a lifespan, middleware and an error handler."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request, Response
from greetings import GREETINGS
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    GREETINGS["word"] = "Hello"
    yield
    GREETINGS.clear()


app = FastAPI(lifespan=lifespan)


class Order(BaseModel):
    item: str
    count: int = 1


@app.middleware("http")
async def mark(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers["x-project"] = "custom-routes"
    return response


@app.get("/shop/greeting")
async def greeting() -> dict[str, str]:
    return dict(GREETINGS)


@app.post("/shop/orders", status_code=201)
async def order(order: Order) -> Order:
    if order.count > 10:
        raise HTTPException(409, "Sold out")
    return order
