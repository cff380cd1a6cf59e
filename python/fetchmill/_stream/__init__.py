"""`stream`, `astream`, `stream_batches` and `Client`: replies to a program instead of a destination."""
