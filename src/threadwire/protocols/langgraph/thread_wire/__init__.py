"""The thread wire: the LangGraph API's newer streaming protocol, in which a client follows a thread, not a run.

`encode` turns a thread's log into its events, `decode` and `commands` handle its commands. The routes are in
`routes/thread_wire.py` and `routes/thread_socket.py`.
"""
