"""`stream`, `astream`, `stream_batches` and `Client`: return replies to a program instead of storing them."""
