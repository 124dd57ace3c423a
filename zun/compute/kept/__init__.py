"""Files with the rows of containers, and the recovery of rows and claims that the database has lost."""
