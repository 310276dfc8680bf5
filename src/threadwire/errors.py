"""Every error that Threadwire raises deliberately.

    ThreadwireError
    ├── Invalid                 the request is invalid
    │   ├── InvalidCursor       the position to resume from is not valid
    │   ├── BadRequest          well-formed, but not allowed in the current state or combination
    │   ├── UnknownInterrupt    an answer to an interrupt that is not pending
    │   ├── KeyReused           an idempotency key that was used for a different request
    │   └── TooDeep             JSON nested beyond the limit
    ├── NotFound                it does not exist, or belongs to another user
    │   ├── AgentNotFound       no agent with that name
    │   └── ThreadNotFound      no thread with the id that a client chose
    ├── Conflict                it already exists, or conflicts with the current state
    │   ├── ThreadBusy          another run holds the thread
    │   └── RollbackDue         a run that must be rolled back was about to end in another way
    ├── QueueFull               too many runs are pending; the client may retry later
    ├── Fenced                  an attempt that no longer holds its thread tried to write
    ├── GraphUnavailable        the graph's code could not be loaded
    ├── GraphFailed             user code raised outside a run
    ├── LoopFailed              the event loop that runs user code failed, and the engine with it
    │   └── LoopAbandoned       the server is shutting down and no longer waits for that loop
    ├── ConfigError             langgraph.json or a setting is invalid; the message says where
    ├── DeliveryFailed          a webhook delivery failed
    └── StorageError            a database operation failed
        ├── StorageFailed       the storage is unusable for the rest of the process, and the engine with it
        ├── StorageDamaged      the database file is corrupt
        └── DataDirectoryLocked another process serves this data directory

Messages are sentences that the reader can act on. Only `http/problems.py` knows HTTP status codes.
"""


class ThreadwireError(Exception):
    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else (self.__doc__ or type(self).__name__)


class Invalid(ThreadwireError):
    """The request is not valid."""


class InvalidCursor(Invalid):
    """The position to resume from is not a sequence number."""


class BadRequest(Invalid):
    """The request is not valid in the current state."""


class UnknownInterrupt(Invalid):
    """No such interrupt is waiting for an answer."""


class KeyReused(Invalid):
    """This Idempotency-Key was already used for a different request."""


class TooDeep(Invalid):
    """The request body is nested too deeply."""


class NotFound(ThreadwireError):
    """Not Found"""


class AgentNotFound(NotFound):
    """Agent not found."""


class ThreadNotFound(NotFound):
    """Thread not found."""


class Conflict(ThreadwireError):
    """The request conflicts with the current state."""


class ThreadBusy(Conflict):
    """Thread is already running a task. Wait for it to finish or choose a different multitask strategy."""


class QueueFull(ThreadwireError):
    """Too many runs are pending. Retry later."""


class Fenced(ThreadwireError):
    """This attempt no longer holds its thread."""


class RollbackDue(Conflict):
    """A rollback of this run has already been accepted."""


class GraphUnavailable(ThreadwireError):
    """The graph could not be loaded."""


class GraphFailed(ThreadwireError):
    """The graph's own code raised an error."""


class LoopFailed(ThreadwireError):
    """The event loop that runs graphs has failed. The server is exiting and must be restarted."""


class LoopAbandoned(LoopFailed):
    """The server is shutting down and no longer waits for the event loop that runs graphs."""


class ConfigError(ThreadwireError):
    """The configuration is invalid."""


class DeliveryFailed(ThreadwireError):
    """Webhook delivery failed."""


class StorageError(ThreadwireError):
    """A database operation failed."""


class StorageFailed(StorageError):
    """The storage has failed. The server is exiting and must be restarted."""


class StorageDamaged(StorageError):
    """The database is damaged."""


class DataDirectoryLocked(StorageError):
    """Another process already serves this data directory."""
