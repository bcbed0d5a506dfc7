"""Authentication and authorization: users, tokens, RBAC."""
