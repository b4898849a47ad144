"""How slow this machine is: limits of CPU time that a reference solution would overrun are widened by a coarse factor."""
