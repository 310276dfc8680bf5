"""Users are identified by the tokens that the application issues. Threads belong to their users."""

from typing import Any

import tokens
from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None) -> Auth.types.MinimalUserDict:
    scheme, _, token = (authorization or "").partition(" ")
    try:
        claims = tokens.decode(token if scheme == "Bearer" else "")
    except ValueError as error:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Invalid token") from error
    return {"identity": claims["sub"], "display_name": claims["name"], "email": claims["email"]}


@auth.on
async def own_rows(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str]:
    value.setdefault("metadata", {})["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}
