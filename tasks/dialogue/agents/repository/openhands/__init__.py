"""Adapter to the OpenHands software-agent SDK, which runs in an environment of its own; see `agent.py`."""
