"""The AG-UI clients people have, as judges of our streams: see tests/js/agui.

Node is started once and asked by lines, so that thousands of streams can be checked.
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
"""The generations of the protocol: its 1.0, and the one inside every CopilotKit page."""


class Seen(NamedTuple):
    """What a client has after a stream."""

    messages: list[dict[str, Any]]
    state: Any
    interrupts: list[dict[str, Any]]
    """Those that wait for an answer."""
    events: list[dict[str, Any]]
    """As they were sent."""
    ids: list[str | None]
    """The SSE id of each event."""


class BadStream(AssertionError):
    """The stream breaks a rule, or a client."""

    def __init__(self, problems: list[str], frames: bytes) -> None:
        super().__init__("\n".join([*problems, "", frames.decode(errors="replace")]))
        self.problems = problems


class AgUi:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def check(
        self,
        frames: bytes,
        *,
        generations: Sequence[str] = BOTH,
        messages: Sequence[dict[str, Any]] = (),
        state: Any = None,
    ) -> Seen:
        """What a client that had `messages` and `state` has after `frames`, a whole stream.

        Raises `BadStream` if the framing, a schema, the order of the events or a null is not as it must be, or if the
        clients of the two generations would end up with different things. A stream that only 1.0 has to understand,
        because it was asked for in 1.0, is checked with `generations=["1.0"]`.
        """
        return self._checked(frames, generations, messages, state, whole=True)

    def until_dropped(self, frames: bytes, *, messages: Sequence[dict[str, Any]] = (), state: Any = None) -> Seen:
        """What a client has after `frames`, the beginning of a stream whose connection was lost."""
        return self._checked(frames, BOTH, messages, state, whole=False)

    def _checked(
        self, frames: bytes, generations: Sequence[str], messages: Sequence[dict[str, Any]], state: Any, *, whole: bool
    ) -> Seen:
        encoded = base64.b64encode(frames).decode()
        request = {"frames": encoded, "for": list(generations), "messages": list(messages), "state": state or {}}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        problems = [each for each in answer.pop("problems") if whole or not each.startswith("end: ")]
        if problems:
            raise BadStream(problems, frames)
        return Seen(**answer)


@contextmanager
def open_agui() -> Iterator[AgUi]:
    assert (JS / "node_modules" / "@ag-ui" / "client").is_dir(), "the JavaScript clients are not installed: `make test`"
    executable = shutil.which("node")
    assert executable, "these tests need Node 20 or later"
    with subprocess.Popen(
        [executable, "agui/main.js", "--lines"], cwd=JS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield AgUi(process)
        finally:
            process.kill()
