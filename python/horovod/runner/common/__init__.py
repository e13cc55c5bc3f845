"""Modules of upstream Horovod's launcher that programs import, kept for compatibility."""
