"""The application's own routes: a login for the page, and a route that checks the token itself."""

import time

import tokens
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

USERS = {"ada@example.org": ("ada", "Ada"), "bob@example.org": ("bob", "Bob")}


async def login(request: Request) -> JSONResponse:
    email = (await request.json())["email"]
    if email not in USERS:
        return JSONResponse({"detail": "Unknown user"}, 403)
    subject, name = USERS[email]
    claims = {"sub": subject, "name": name, "email": email, "exp": time.time() + 3600}
    return JSONResponse({"token": tokens.encode(claims)})


async def me(request: Request) -> JSONResponse:
    try:
        claims = tokens.decode(request.headers.get("authorization", "").removeprefix("Bearer "))
    except ValueError:
        return JSONResponse({"detail": "Not logged in"}, 401)
    return JSONResponse({"email": claims["email"]})


app = Starlette(routes=[Route("/api/login", login, methods=["POST"]), Route("/api/me", me)])
