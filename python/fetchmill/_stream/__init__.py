"""`stream`, `astream`, `stream_batches` and `Client`, which return replies to a program instead of storing them."""
