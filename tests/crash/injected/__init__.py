"""Not imported as a package: this folder goes on PYTHONPATH of the processes of a night that is to
be killed.
"""
