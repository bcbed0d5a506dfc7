"""`grove scale`: change the number of replicas."""
