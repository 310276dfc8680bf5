"""Handlers as in LangGraph's documentation and in open_deep_research: tokens, private threads, scopes, a store."""

import asyncio

from langgraph_sdk import Auth
from langgraph_sdk.auth.types import StudioUser

VALID_TOKENS = {
    "user1-token": {"id": "user1", "name": "Alice", "permissions": ["threads:write"]},
    "user2-token": {"id": "user2", "name": "Bob", "permissions": ["threads:write"]},
    "reader-token": {"id": "user1", "name": "Reader", "permissions": []},
}

auth = Auth()


@auth.authenticate
async def get_current_user(authorization: str | None) -> Auth.types.MinimalUserDict:
    """Check if the user's token is valid."""
    if not authorization:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Missing authorization")
    scheme, _, token = authorization.partition(" ")
    # Like a client of an identity provider that has no async version.
    user = await asyncio.to_thread(VALID_TOKENS.get, token) if scheme.lower() == "bearer" else None
    if user is None:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Invalid token")
    return {
        "identity": str(user["id"]),
        "display_name": str(user["name"]),
        "permissions": list(user["permissions"]),
        "is_authenticated": True,
    }


@auth.on
async def deny_by_default(ctx: Auth.types.AuthContext, value: dict) -> bool:
    return False


@auth.on.threads.create
async def on_thread_create(ctx: Auth.types.AuthContext, value: Auth.types.on.threads.create.value) -> dict:
    if "threads:write" not in ctx.permissions:
        raise Auth.exceptions.HTTPException(status_code=403, detail="User lacks the required permissions.")
    metadata = value.setdefault("metadata", {})
    metadata["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}


@auth.on.threads.create_run
async def on_run_create(ctx: Auth.types.AuthContext, value: Auth.types.on.threads.create_run.value) -> dict:
    value["metadata"]["started_by"] = ctx.user.identity
    value["kwargs"]["config"]["configurable"]["greeting"] = f"Hello {ctx.user.display_name}"
    return {"owner": ctx.user.identity}


@auth.on.threads
async def own_threads(ctx: Auth.types.AuthContext, value: dict) -> dict | None:
    if isinstance(ctx.user, StudioUser):
        return None
    return {"owner": ctx.user.identity}


@auth.on.assistants.read
async def read_assistants(ctx: Auth.types.AuthContext, value: dict) -> bool:
    return True


@auth.on.store()
async def authorize_store(ctx: Auth.types.AuthContext, value: dict) -> None:
    if isinstance(ctx.user, StudioUser):
        return
    namespace: tuple = value["namespace"]
    assert namespace[0] == ctx.user.identity, "Not authorized"
