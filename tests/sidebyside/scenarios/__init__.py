"""The scenarios that are played on both servers. A scenario is an async function of a `Wire`. The table of differences
refers to it by its function name."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module

from exchanges import Wire

Play = Callable[[Wire], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    name: str
    play: Play
    subject: str
    """The module that defines it."""
    alone: bool
    """Whether it affects other scenarios' data and must run after they have ended."""

    @property
    def has_auth(self) -> bool:
        """Whether it is played on the servers of the project with `auth`."""
        return self.subject == "auth"


SCENARIOS: dict[str, Scenario] = {}
SUBJECTS = (
    "system", "assistants", "threads", "state", "runs", "streams", "joining", "interrupts", "commands", "cancelling",
    "multitasking", "stateless", "crons", "store", "thread_wire", "errors", "auth",
)  # fmt: skip


def scenario(play: Play) -> Play:
    return _add(play)


def alone(play: Play) -> Play:
    return _add(play, alone=True)


def named(name: str, play: Play) -> None:
    """Register a scenario that is one of a series."""
    _add(play, name=name)


def _add(play: Play, *, name: str | None = None, alone: bool = False) -> Play:
    name = name or play.__name__
    assert name not in SCENARIOS, f"Duplicate scenario name: {name}"
    SCENARIOS[name] = Scenario(name, play, _loading, alone)
    return play


for _loading in SUBJECTS:
    import_module(f"scenarios.{_loading}")
