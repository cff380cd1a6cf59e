"""What can be asked for: the options of calls and commands, their checks, and their JSON for the native module."""
