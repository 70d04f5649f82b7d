"""What the load bench and the crash harness share: a server to start and kill, and its clients."""
