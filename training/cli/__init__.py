"""The command line of training: `python -m training COMMAND`."""
