"""JSON that breaks off in the middle, as the arguments of a tool call do while they stream.

Gives what LangChain's `parse_partial_json` gives (spec/timeline.md, 4.13).
"""

import json

from threadwire.core.entries import Json


def parse_partial_json(text: str) -> Json:
    """Parse as much of `text` as there is. Raises `ValueError` if no beginning of it is JSON."""
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
    raise ValueError("No beginning of the text is JSON")


def _close(text: str) -> tuple[list[str], str] | None:
    """The characters with an open string closed, and the brackets that are open; None if brackets do not match."""
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
