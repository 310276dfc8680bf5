"""Every error that Threadwire raises deliberately.

    ThreadwireError
    ├── Invalid                 the request is invalid
    │   ├── InvalidCursor       the position to resume from is not valid
    │   ├── BadRequest          well-formed, but not allowed in the current state or combination
    │   ├── UnknownInterrupt    an answer to an interrupt that is not pending
    │   ├── KeyReused           an idempotency key that was used for a different request
    │   ├── TooDeep             JSON nested beyond the limit
    │   └── TooLarge            a file larger than its limit
    ├── NotFound                the resource does not exist, or belongs to another user
    │   ├── AgentNotFound       no agent with that name
    │   └── ThreadNotFound      no thread with the id that a client chose
    ├── Unauthenticated         the request has no valid credential
    ├── Forbidden               the user may not do this
    ├── Rejected                an auth handler of the project rejected the request, with a status of its choice
    ├── AuthFailed              an auth handler of the project failed
    ├── Conflict                the resource already exists, or the request conflicts with the current state
    │   ├── ThreadBusy          another run holds the thread
    │   └── RollbackDue         a run that must be rolled back was about to end in another way
    ├── QueueFull               too many runs are pending; the client may retry later
    ├── Fenced                  an attempt that no longer holds its thread tried to write
    ├── GraphUnavailable        the graph's code could not be loaded
    ├── GraphFailed             the project's code raised an error outside a run
    ├── LoopFailed              a user loop failed, and with it the engine
    │   └── LoopAbandoned       the server is shutting down and no longer waits for that loop
    ├── InvalidAccessFilter     the project's auth handler returned a filter that is not valid
    ├── ConfigError             langgraph.json or a setting is invalid; the message says where
    ├── DeliveryFailed          a webhook delivery failed
    ├── RequestFailed           another process of the server could not execute a request
    │   └── ForbiddenType       a message between processes contains a type that is not allowed
    ├── UserError               raised by a graph; its message is shown to users
    │   └── RetryableUserError  as above, and trying again may help
    └── StorageError            a database operation failed
        ├── StorageUnavailable  the storage cannot do this now, but will be able to later
        │   ├── StorageFull     there is no room to write; reads work
        │   └── ConnectionLost  the connection between two processes of the server is lost
        ├── WriteTooLarge       there is no room for this write, although smaller ones may fit
        ├── StorageFailed       the storage, and with it the engine, is unusable until a restart
        ├── StorageDamaged      the database file is damaged
        └── DataDirectoryLocked another process uses this data directory

Messages are sentences that the reader can act on. Only `http/problems.py` maps these classes to HTTP status codes.
`Rejected` is the one class that carries a status, because an auth handler chose it.
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


class TooLarge(Invalid):
    """The file is too large."""


class NotFound(ThreadwireError):
    """Not Found"""


class AgentNotFound(NotFound):
    """Agent not found."""


class ThreadNotFound(NotFound):
    """Thread not found."""


class Unauthenticated(ThreadwireError):
    """Unauthorized"""


class Forbidden(ThreadwireError):
    """Forbidden"""


class Rejected(ThreadwireError):
    """Forbidden"""

    def __init__(self, status: int = 403, detail: str = "Forbidden", headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers or {}


class AuthFailed(ThreadwireError):
    """The request could not be authorized."""


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


class InvalidAccessFilter(ThreadwireError):
    """The access filter is not valid."""


class ConfigError(ThreadwireError):
    """The configuration is invalid."""


class DeliveryFailed(ThreadwireError):
    """Webhook delivery failed."""


class RequestFailed(ThreadwireError):
    """Another process of the server could not execute a request."""


class ForbiddenType(RequestFailed):
    """A message between processes contains a type that is not allowed."""


class UserError(ThreadwireError):
    """Something went wrong."""


class RetryableUserError(UserError):
    """Something went wrong. Try again."""


class StorageError(ThreadwireError):
    """A database operation failed."""


class StorageUnavailable(StorageError):
    """The storage is temporarily unavailable. Retry later."""


class StorageFull(StorageUnavailable):
    """The storage is full. Retry when there is room."""


class ConnectionLost(StorageUnavailable):
    """The connection to another process of the server is lost."""


class WriteTooLarge(StorageError):
    """The storage has no room for this much data."""


class StorageFailed(StorageError):
    """The storage has failed. The server is exiting and must be restarted."""


class StorageDamaged(StorageError):
    """The database is damaged."""


class DataDirectoryLocked(StorageError):
    """Another process already uses this data directory."""
