"""Runs requested by a `RemoteGraph` that is a node of a graph on another server.

**For:** if the calling graph was resumed with answers, the requested run needs them too. `RemoteGraph` sends them among
the keys that LangGraph sets while it executes a graph.

**Changed LangGraph:** the key is missing. Then the run is resumed without the answers that its caller has, and asks
again.
"""

ANSWERS_OF_CALLER = "__pregel_resume_map"
