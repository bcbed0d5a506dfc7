"""Start-up order: which cliques a clique starts after, the init container that waits for them, and its permissions."""
