"""The `Auth` of the benchmark with auth: a lookup, and rows that belong to their users."""

from typing import Any

from langgraph_sdk import Auth

TOKEN = "bench-token"
USERS = {f"Bearer {TOKEN}": "ada"}

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None) -> str:
    if authorization not in USERS:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Unauthorized")
    return USERS[authorization]


@auth.on
async def own_rows(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Auth.types.FilterType:
    mine = {"owner": ctx.user.identity}
    value.setdefault("metadata", {}).update(mine)
    return mine
