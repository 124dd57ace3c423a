"""Work on one container: its creation, its changes, the comparison with the runtime, its removal."""
