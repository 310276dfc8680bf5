from collections.abc import Callable

from threadwire.server.waiting_connections import ConnectionLimits, Phase, WaitingConnections

LIMITS = ConnectionLimits(idle_seconds=4, head_seconds=2, body_seconds=3, response_seconds=5)


class Client:
    """A connection that records what happens to it."""

    def __init__(self, progress: Callable[[], bool] = lambda: False) -> None:
        self.closed_in: Phase | None = None
        self._progress = progress

    def makes_progress(self, phase: Phase, seconds: float) -> bool:
        return self._progress()

    def give_up(self, phase: Phase) -> None:
        self.closed_in = phase


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_phase_has_its_own_timeout() -> None:
    clock = Clock()
    waiting = WaitingConnections(LIMITS, clock)
    clients = {phase: Client() for phase in Phase}
    for phase, client in clients.items():
        waiting.start(client, phase)
    closed = []
    for _ in range(6):
        waiting.close_expired()
        closed.append([phase.value for phase, client in clients.items() if client.closed_in])
        clock.now += 1
    assert closed == [[], [], ["head"], ["head", "body"], ["idle", "head", "body"], [phase.value for phase in Phase]]
    assert waiting.closed == dict.fromkeys(Phase, 1)


def test_a_client_that_makes_progress_gets_the_time_again() -> None:
    clock = Clock()
    waiting = WaitingConnections(LIMITS, clock)
    progress = iter([True, True, False])
    client = Client(lambda: next(progress))
    waiting.start(client, Phase.BODY)
    for seconds in range(9):
        assert client.closed_in is None, seconds
        clock.now += 1
        waiting.close_expired()
    assert client.closed_in is Phase.BODY


def test_a_connection_that_stopped_waiting_is_not_closed() -> None:
    clock = Clock()
    waiting = WaitingConnections(LIMITS, clock)
    client = Client()
    waiting.start(client, Phase.HEAD)
    waiting.stop(client, Phase.HEAD)
    clock.now += 100
    waiting.close_expired()
    assert client.closed_in is None


def test_room_is_made_by_the_connection_that_has_waited_longest_for_a_request() -> None:
    clock = Clock()
    waiting = WaitingConnections(LIMITS, clock)
    reading, body, idle, head = (Client() for _ in range(4))
    for client, phase in (
        (reading, Phase.RESPONSE),
        (body, Phase.BODY),
        (idle, Phase.IDLE),
        (head, Phase.HEAD),
    ):
        waiting.start(client, phase)
        clock.now += 1
    closed = []
    while waiting.make_room():
        closed.append([client.closed_in for client in (reading, body, idle, head)])
    assert closed == [
        [None, Phase.BODY, None, None],
        [None, Phase.BODY, Phase.IDLE, None],
        [None, Phase.BODY, Phase.IDLE, Phase.HEAD],
    ]
