"""Calibration of CPU limits to the speed of this machine.

If a reference solution would exceed the CPU limits on this machine, Parley multiplies the limits by
a coarse factor.
"""
