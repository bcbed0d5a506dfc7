"""The whole system on a virtual clock: one world, its faults, and what happened in it. No sockets, no threads."""
