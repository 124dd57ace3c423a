"""What happens to one container: made, changed, looked at, removed."""
