"""Changes of a state as the RFC 6902 operations that both versions of clients accept: add, remove, replace."""

from typing import Any

from threadwire.core.entries import Json

Operation = dict[str, Any]


def pointer(*path: str | int) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def difference(before: Json, after: Json, path: tuple[str | int, ...]) -> list[Operation]:
    """The operations that turn `before` into `after`. Objects are compared key by key and lists element by element;
    insertions in the middle of a list are not detected, which keeps the operations simple."""
    if type(before) is type(after) and before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return _in_object(before, after, path)
    if isinstance(before, list) and isinstance(after, list):
        return _in_list(before, after, path)
    return [{"op": "replace", "path": pointer(*path), "value": after}]


def apply(document: Json, operations: list[Operation]) -> Json:
    """Apply such operations as a client does. Modifies the document."""
    for operation in operations:
        *path, last = [_unescaped(part) for part in operation["path"].split("/")[1:]]
        target = document
        for part in path:
            target = target[int(part) if isinstance(target, list) else part]
        _apply(operation, target, int(last) if isinstance(target, list) else last)
    return document


def _apply(operation: Operation, target: Any, at: Any) -> None:
    if operation["op"] == "remove":
        del target[at]
    elif operation["op"] == "add" and isinstance(target, list):
        target.insert(at, operation["value"])
    else:
        target[at] = operation["value"]


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _in_object(before: dict[str, Json], after: dict[str, Json], path: tuple[str | int, ...]) -> list[Operation]:
    operations = [{"op": "remove", "path": pointer(*path, key)} for key in before if key not in after]
    for key, value in after.items():
        if key not in before:
            operations.append({"op": "add", "path": pointer(*path, key), "value": value})
        else:
            operations += difference(before[key], value, (*path, key))
    return operations


def _in_list(before: list[Json], after: list[Json], path: tuple[str | int, ...]) -> list[Operation]:
    operations: list[Operation] = []
    for at, (old, new) in enumerate(zip(before, after, strict=False)):
        operations += difference(old, new, (*path, at))
    return operations + splice(path, min(len(before), len(after)), len(before) - len(after), after[len(before) :])


def splice(path: tuple[str | int, ...], at: int, dropped: int, items: list[Json]) -> list[Operation]:
    """Replace `dropped` elements of a list at `at` with `items`."""
    removed = [{"op": "remove", "path": pointer(*path, at)}] * max(dropped, 0)
    added = [{"op": "add", "path": pointer(*path, at + offset), "value": item} for offset, item in enumerate(items)]
    return [*removed, *added]
