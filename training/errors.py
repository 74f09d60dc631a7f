"""What ends a training command with one sentence and exit code 2."""


class TrainingError(ValueError):
    """The user can mend it: the message names the file or option, what is wrong, and the way out."""
