from threadwire.environment import EnvironmentSettings


class TickerSettings(EnvironmentSettings):
    ticker_kinds: frozenset[str] = frozenset({"run.started", "run.ended"})
    """The kinds of log entries that produce a tick."""
