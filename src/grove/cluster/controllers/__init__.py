"""Built-in controllers of the embedded cluster: garbage collection, namespaces, nodes, disruption budgets."""
