"""Calibration of CPU limits to the speed of this machine.

If a reference solution would exceed the limits of CPU time, Parley multiplies them by a coarse
factor.
"""
