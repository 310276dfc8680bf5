"""Addresses of PostgreSQL and Redis in a form that is safe to show: without credentials."""

from urllib.parse import parse_qsl, urlencode, urlsplit

SECRET = "***"
_SECRET_PARAMETERS = frozenset({"password", "sslpassword", "sslkey", "passfile"})


def redacted(address: str) -> str:
    """Return the address with its password, and secrets in its parameters, replaced by `***`.

    An address that cannot be parsed is not shown at all, because its password could be anywhere.
    """
    try:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
        user = parts.username
    except ValueError:
        return SECRET
    if not parts.scheme or "://" not in address:
        return SECRET
    credentials = "" if user is None and parts.password is None else user or ""
    if parts.password is not None:
        credentials += f":{SECRET}"
    netloc = f"{credentials}@{host}" if credentials else host
    query = _redacted_query(parts.query)
    return f"{parts.scheme}://{netloc}{parts.path}" + (f"?{query}" if query else "")


def _redacted_query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    shown = [(name, SECRET if name.lower() in _SECRET_PARAMETERS else value) for name, value in pairs]
    return urlencode(shown, safe="*/")
