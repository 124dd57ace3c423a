"""Whether containers run where their claims say."""
