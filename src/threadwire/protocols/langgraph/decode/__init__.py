"""Requests of the LangGraph API, and what they mean to the engine.

Unknown keys are ignored, as the official server does, because SDKs send keys of their own; a key we know and cannot
honour is refused, never dropped.
"""
