"""Requests of the LangGraph API, and their translation for the engine.

Unknown keys are ignored, as on the stock server, because SDKs send keys of their own. A known key that we cannot honour
is rejected, never dropped.
"""
