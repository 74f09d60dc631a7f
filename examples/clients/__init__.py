"""The server from other programs, one each; run them with the server's address as their only argument."""
