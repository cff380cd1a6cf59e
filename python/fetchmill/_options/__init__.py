"""The options of calls and commands: their validation, and their JSON form for the native module."""
