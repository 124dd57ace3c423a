"""The resources of this host: hardware, claims, shared CPUs, the inventory and the metrics."""
