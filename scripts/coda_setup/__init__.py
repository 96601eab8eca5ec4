"""The parts of the set-up: what is asked of the machine, what is to be done, and doing it."""
