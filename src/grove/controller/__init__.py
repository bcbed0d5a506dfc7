"""The loop around the planner: watch, observe, plan, execute, sleep until the next deadline."""
