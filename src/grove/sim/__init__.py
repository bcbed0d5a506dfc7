"""Simulation of the whole system on a virtual clock, with faults. No sockets, no threads."""
