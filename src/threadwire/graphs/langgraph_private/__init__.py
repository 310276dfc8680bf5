"""Everything that relies on undocumented behaviour of LangGraph, its SDK and LangChain.

Nothing outside this package uses their private names, replaces one of their names, or depends on how a certain version
behaves. `tests/unit/graphs/test_private_names.py` checks this. The exception is `storage/serializer.py`, because
`storage` does not import `graphs`.

Each module is one piece. Its docstring says what it is for, how a changed LangGraph is detected, and what happens then.
The rules:

- No piece may stop the server from starting: private modules are imported inside functions, and every failure counts
  as a changed LangGraph.
- A fallback is logged once per process, in one line (`fallbacks.py`), and has a test that removes the name.
- A replacement that applies to the whole process is a `ProcessPatch`; `server/process_patches.py` lists all of them.
  `threadwire dev` and `serve` apply them. An embedded server does not: docs/how-to/mount-in-your-application.md lists
  what it loses.
- The package imports nothing else of `graphs`.
"""
