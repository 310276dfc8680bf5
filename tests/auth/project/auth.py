"""Bearer tokens of the form `name` or `name.exp`, and rows that belong to the user who created them."""

from typing import Any

from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None) -> Auth.types.MinimalUserDict:
    if not authorization or not authorization.startswith("Bearer "):
        raise Auth.exceptions.HTTPException(status_code=401, detail="no token")
    token = authorization.removeprefix("Bearer ")
    if token.startswith("broken"):
        raise RuntimeError(f"cannot read {token}")
    name, _, exp = token.partition(".")
    return {"identity": name, "permissions": ["chat"], **({"exp": float(exp)} if exp else {})}


@auth.on
async def own_rows(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Auth.types.FilterType:
    mine = {"owner": ctx.user.identity}
    value.setdefault("metadata", {}).update(mine)
    return mine


@auth.on.store
async def own_namespace(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> None:
    value["namespace"] = (ctx.user.identity, *(value["namespace"] or ()))
