"""Topology constraints: node label keys, scopes, pinned domains, and ClusterTopologyBindings."""
