"""The options of calls and commands, their checks, and their JSON for the native module."""
