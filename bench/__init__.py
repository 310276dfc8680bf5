"""The budget table of the design, measured: `python -m bench`."""
