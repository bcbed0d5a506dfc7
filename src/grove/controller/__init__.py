"""The operator: informers, work queue, reconciler and executor around the planner."""
