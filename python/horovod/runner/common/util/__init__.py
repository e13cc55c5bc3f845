"""Hosts and the environment, as upstream Horovod's launcher has them, kept for compatibility."""
