"""Text as stored in the database. PostgreSQL's text can hold neither NUL nor lone surrogates, so they are escaped.

Escaping keeps different texts different, and leaves nearly every text as it is.
"""

import re

_ESCAPE = "\x01"
_ESCAPED = re.compile("[\x00\x01\ud800-\udfff]")
_ESCAPES = re.compile(f"{_ESCAPE}([0-9a-f]{{4}})")


def escaped(text: str) -> str:
    return _ESCAPED.sub(_escape, text)


def escaped_or_null(text: str | None) -> str | None:
    return None if text is None else escaped(text)


def unescaped(text: str) -> str:
    return _ESCAPES.sub(_unescape, text) if _ESCAPE in text else text


def unescaped_or_none(text: str | None) -> str | None:
    return None if text is None else unescaped(text)


def _escape(found: "re.Match[str]") -> str:
    return f"{_ESCAPE}{ord(found.group()):04x}"


def _unescape(found: "re.Match[str]") -> str:
    return chr(int(found.group(1), 16))
