"""The fields of POST /attention: `choices` of parts of a network, the `request` and the `answer`."""
