"""What a host keeps of its containers against the loss of rows and claims."""
