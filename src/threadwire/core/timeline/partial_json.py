"""Parses incomplete JSON, such as the arguments of a tool call while they stream. Returns the same as LangChain's
`parse_partial_json` (spec/timeline.md, 4.13).
"""

import json

from threadwire.core.entries import Json


def parse_partial_json(text: str) -> Json:
    """Parse the longest prefix of `text` that is JSON once open strings and brackets are closed. Returns None if
    brackets do not match. Raises `ValueError` if there is no such prefix."""
    try:
        return json.loads(text, strict=False)
    except ValueError:
        pass
    closed = _close(text)
    if closed is None:
        return None
    characters, closing = closed
    while characters:
        try:
            return json.loads("".join(characters) + closing, strict=False)
        except ValueError:
            characters.pop()
    raise ValueError("No prefix of the text is JSON")


def _close(text: str) -> tuple[list[str], str] | None:
    """Return the characters, with an open string closed, and the closing brackets they need; None if brackets do not
    match."""
    characters: list[str] = []
    brackets: list[str] = []
    in_string = escaped = False
    for character in text:
        shown = character
        if in_string:
            if character == '"' and not escaped:
                in_string = False
            elif character == "\n" and not escaped:
                shown = "\\n"
            else:
                escaped = character == "\\" and not escaped
        elif character == '"':
            in_string, escaped = True, False
        elif character in _CLOSING:
            brackets.append(_CLOSING[character])
        elif character in "}]" and (not brackets or brackets.pop() != character):
            return None
        characters.append(shown)
    if in_string:
        if escaped:
            characters.pop()
        characters.append('"')
    return characters, "".join(reversed(brackets))


_CLOSING = {"{": "}", "[": "]"}
