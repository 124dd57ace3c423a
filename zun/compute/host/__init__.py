"""What this host has, who holds it, and what it tells of itself."""
