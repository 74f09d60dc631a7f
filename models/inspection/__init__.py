"""Inspection: numbers in fp32, from passes that leave the network unchanged. selection and results need no torch."""
