"""`grove init`: commented manifests to start from."""
