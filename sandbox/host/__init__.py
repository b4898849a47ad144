"""Slots, limits, mounts and system-call filters of this machine."""
