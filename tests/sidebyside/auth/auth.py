"""Handlers as in LangGraph's documentation: own threads and crons, assistants that can only be read, namespaces of the
store by user. Some users test what else handlers can do: each is named after what happens to its requests.

A token is `name.mark`. The mark is unique for each scenario, so that no scenario sees the rows of another one.
"""

from typing import Any

from calls import note
from langgraph_sdk import Auth

auth = Auth()


class Person:
    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.display_name = "A person"
        self.is_authenticated = True
        self.permissions = ["threads:write"]


@auth.authenticate
async def authenticate(authorization: str | None) -> Any:
    if not authorization or not authorization.startswith("Bearer "):
        raise Auth.exceptions.HTTPException(status_code=401, detail="Missing token")
    name, _, mark = authorization.removeprefix("Bearer ").partition(".")
    identity = f"{name}-{mark}"
    match name:
        case "stranger":
            raise Auth.exceptions.HTTPException(status_code=401, detail="Invalid token")
        case "banned":
            raise Auth.exceptions.HTTPException(status_code=403, detail="Banned")
        case "late":
            raise Auth.exceptions.HTTPException(status_code=429, detail="Try later")
        case "crash":
            raise RuntimeError("the database is down")
        case "assert":
            raise AssertionError("not a good token")
        case "nobody":
            return None
        case "nameless":
            return {"display_name": "Nameless"}
        case "text":
            return identity
        case "person":
            return Person(identity)
    permissions = [] if name == "reader" else ["threads:write"]
    return {"identity": identity, "display_name": name.title(), "permissions": permissions, "team": "red"}


def name_of(ctx: Auth.types.AuthContext) -> str:
    return ctx.user.identity.partition("-")[0]


@auth.on
async def own_rows(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Auth.types.FilterType:
    note(ctx.user.identity, ctx.resource, ctx.action, value)
    mine = {"owner": ctx.user.identity}
    value.setdefault("metadata", {}).update(mine)
    return mine


@auth.on.threads.create
async def create_thread(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Any:
    note(ctx.user.identity, ctx.resource, ctx.action, value)
    if "threads:write" not in ctx.permissions and name_of(ctx) != "text":  # an identity alone has no permissions
        raise Auth.exceptions.HTTPException(status_code=403, detail="User lacks the required permissions.")
    value.setdefault("metadata", {})["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}


@auth.on.threads.create_run
async def create_run(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Any:
    outcome = await threads(ctx, value)
    value["metadata"]["owner"] = ctx.user.identity
    return outcome


@auth.on.threads
async def threads(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Any:
    note(ctx.user.identity, ctx.resource, ctx.action, value)
    match name_of(ctx):
        case "denied":
            return False
        case "allowed":
            return True
        case "unasserted":
            raise AssertionError("Not your thread")
        case "conflict":
            raise Auth.exceptions.HTTPException(status_code=409, detail="Busy")
        case "exception":
            raise ValueError("a secret")
        case "number":
            return 7
        case "operator":
            return {"owner": {"$near": ctx.user.identity}}
        case "equal":
            return {"owner": {"$eq": ctx.user.identity}}
        case "member":
            return {"members": {"$contains": ctx.user.identity}}
        case "either":
            return {"$or": [{"owner": ctx.user.identity}, {"members": {"$contains": [ctx.user.identity]}}]}
    return {"owner": ctx.user.identity}


@auth.on.assistants
async def read_assistants(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> bool:
    note(ctx.user.identity, ctx.resource, ctx.action, value)
    if ctx.action in ("create", "update", "delete") and name_of(ctx) != "writer":
        raise Auth.exceptions.HTTPException(status_code=403, detail="Assistants can only be read.")
    return True


@auth.on.store
async def own_namespace(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> None:
    note(ctx.user.identity, ctx.resource, ctx.action, value)
    if name_of(ctx) == "mover":
        value["namespace"] = (ctx.user.identity, *(value["namespace"] or ()))
        return
    assert tuple(value["namespace"] or ())[:1] == (ctx.user.identity,), "Not authorized"
