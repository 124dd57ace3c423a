"""Whether containers run where their claims say, and claims that no row has."""
