"""Threads, as upstream Horovod's launcher has them, kept for compatibility."""
