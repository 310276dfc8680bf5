"""The storage for worker processes, over a local socket.

Only one process opens the file. It commits for the worker processes, so that there is still one writer, one queue and
one fsync for everything that waits. A worker encodes its entries and serializes its checkpoints itself; only rows
cross the socket.

- `client` is the storage of a worker: the part that workers need (`WorkerStorage`).
- `service` is its counterpart in the process that owns the file, one per worker.
"""
