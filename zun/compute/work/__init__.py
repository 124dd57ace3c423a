"""When the work of a container is done: the queues and the runtime's events."""
