"""Placement of pods on nodes: node fit, topology packing and gangs. Pure: the scheduler binds the pods."""
