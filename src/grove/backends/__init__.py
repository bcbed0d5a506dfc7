"""Scheduler backends: the objects that each scheduler needs for a gang and its pods. One file each, all pure."""
