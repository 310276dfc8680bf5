"""Checks our streams with the official AG-UI clients: see tests/js/agui.

Node is started once and receives one request per line, so that thousands of streams can be checked.
"""

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

JS = Path(__file__).parent.parent / "js"

BOTH = ("1.0", "0.0.59")
"""The generations of the protocol: 1.0, and the one that CopilotKit's frontend uses."""


class StreamResult(NamedTuple):
    """What a client has after a stream."""

    messages: list[dict[str, Any]]
    state: Any
    interrupts: list[dict[str, Any]]
    """The open interrupts."""
    events: list[dict[str, Any]]
    """The events as sent."""
    ids: list[str | None]
    """The SSE id of each event."""


class BadStream(AssertionError):
    """The stream violates a rule, or breaks a client."""

    def __init__(self, problems: list[str], frames: bytes) -> None:
        super().__init__("\n".join([*problems, "", frames.decode(errors="replace")]))
        self.problems = problems


class AgUiChecker:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def check(
        self,
        frames: bytes,
        *,
        generations: Sequence[str] = BOTH,
        messages: Sequence[dict[str, Any]] = (),
        state: Any = None,
    ) -> StreamResult:
        """Return what a client that had `messages` and `state` has after `frames`, a complete stream.

        Raises `BadStream` if the framing, a schema, the order of the events or a null is invalid, or if the clients of
        the two generations end up with different results. Check a stream that was requested in 1.0, and that only 1.0
        has to understand, with `generations=["1.0"]`.
        """
        return self._check(frames, generations, messages, state, complete=True)

    def until_dropped(
        self, frames: bytes, *, messages: Sequence[dict[str, Any]] = (), state: Any = None
    ) -> StreamResult:
        """Return what a client has after `frames`, the start of a stream whose connection was lost."""
        return self._check(frames, BOTH, messages, state, complete=False)

    def _check(
        self,
        frames: bytes,
        generations: Sequence[str],
        messages: Sequence[dict[str, Any]],
        state: Any,
        *,
        complete: bool,
    ) -> StreamResult:
        encoded = base64.b64encode(frames).decode()
        request = {"frames": encoded, "for": list(generations), "messages": list(messages), "state": state or {}}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        response = json.loads(self._process.stdout.readline())
        problems = [each for each in response.pop("problems") if complete or not each.startswith("end: ")]
        if problems:
            raise BadStream(problems, frames)
        return StreamResult(**response)


@contextmanager
def open_agui_checker() -> Iterator[AgUiChecker]:
    assert (JS / "node_modules" / "@ag-ui" / "client").is_dir(), (
        "The JavaScript clients are not installed: run `make test`"
    )
    executable = shutil.which("node")
    assert executable, "These tests need Node 20 or later"
    with subprocess.Popen(
        [executable, "agui/main.js", "--lines"], cwd=JS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield AgUiChecker(process)
        finally:
            process.kill()
