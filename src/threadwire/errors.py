"""Every error Threadwire raises on purpose.

    ThreadwireError
    ├── Invalid                 the request makes no sense; say why
    │   ├── InvalidCursor       a position that is not a position
    │   ├── BadRequest          well-formed, but not at this moment or in this combination
    │   ├── UnknownInterrupt    an answer to a question nobody asks
    │   ├── KeyReused           an idempotency key that stands for another request
    │   └── TooDeep             JSON nested beyond the limit
    ├── NotFound                no such thing, or not yours
    │   ├── AgentNotFound       no agent of that name
    │   └── ThreadNotFound      no thread that pages call so
    ├── Conflict                it exists already, or the moment is wrong
    │   └── ThreadBusy          another run holds the thread
    ├── Fenced                  an attempt that no longer holds its thread tried to write
    ├── GraphUnavailable        the graph's code could not be loaded
    ├── GraphFailed             user code raised while it was being asked something outside a run
    ├── LoopDied                the loop on which user code runs is gone, and the engine with it
    │   └── LoopGivenUp         it may be there, but the server stops and does not wait for it any longer
    ├── ConfigError             langgraph.json is wrong; one line says where
    ├── NotDelivered            a webhook could not be told
    └── StorageError            the database refused
        ├── StorageDied         the database is gone for good, and the engine with it
        ├── StorageDamaged      the file is not as it was written
        └── DataDirectoryLocked another process serves this data directory

The message is a sentence a person can act on. HTTP status codes are known to `http/problems.py` alone.
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
    """The request cannot be carried out as it stands."""


class UnknownInterrupt(Invalid):
    """No such interrupt waits for an answer."""


class KeyReused(Invalid):
    """This Idempotency-Key was used for another request. A key stands for one request and its repetitions."""


class TooDeep(Invalid):
    """The request body is nested too deeply."""


class NotFound(ThreadwireError):
    """Not Found"""


class AgentNotFound(NotFound):
    """There is no such agent."""


class ThreadNotFound(NotFound):
    """There is no such thread."""


class Conflict(ThreadwireError):
    """The request conflicts with what is there."""


class ThreadBusy(Conflict):
    """Thread is already running a task. Wait for it to finish or choose a different multitask strategy."""


class Fenced(ThreadwireError):
    """This attempt no longer holds its thread."""


class RollbackDue(Conflict):
    """Somebody has been promised that this run is rolled back."""


class GraphUnavailable(ThreadwireError):
    """The graph could not be loaded."""


class GraphFailed(ThreadwireError):
    """The graph's own code raised an error."""


class LoopDied(ThreadwireError):
    """The event loop on which graphs run has died. The server ends, and has to be started again."""


class LoopGivenUp(LoopDied):
    """The server is being stopped, and no longer waits for the event loop on which graphs run."""


class ConfigError(ThreadwireError):
    """The configuration is wrong."""


class NotDelivered(ThreadwireError):
    """The webhook could not be told."""


class StorageError(ThreadwireError):
    """The database refused."""


class StorageDied(StorageError):
    """The storage has died. The server ends, and has to be started again."""


class StorageDamaged(StorageError):
    """The database is damaged."""


class DataDirectoryLocked(StorageError):
    """Another process already serves this data directory."""
